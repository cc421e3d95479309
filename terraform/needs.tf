# What each need of the catalogue is granted: the one place where a need becomes a role. A service has what its functions need, and
# nothing else; a new need is one entry here.
#
# on is what the role is granted on: the project, or the topic of nudges. where narrows a role on the project (an IAM condition); empty
# does not.

locals {
  this_database = "resource.name == \"projects/${var.project_id}/databases/${local.database}\""
  firebase      = startswith(var.identity_issuer, "https://securetoken.google.com/")
  agent_secrets = "resource.name.startsWith(\"projects/${var.project_number}/secrets/agent-\")"

  grants = {
    firestore = [{ role = "roles/datastore.user", on = "project", where = local.this_database }]
    publish   = [{ role = "roles/pubsub.publisher", on = "nudges", where = "" }]

    # Secrets are made and listed in the project, so that these rights can't be narrowed to names; what is in secrets can.
    secret_add = [
      { role = local.custom_roles.secret_creator, on = "project", where = "" },
      { role = local.custom_roles.secret_writer, on = "project", where = local.agent_secrets },
    ]
    secret_read = [{ role = "roles/secretmanager.secretAccessor", on = "project", where = local.agent_secrets }]
    secret_manage = [
      { role = local.custom_roles.secret_creator, on = "project", where = "" },
      { role = local.custom_roles.secret_manager, on = "project", where = local.agent_secrets },
    ]

    # Only the way to the API servers: what may be done there is said by each cluster's own rules (cell/access.yaml).
    cluster = [{ role = local.custom_roles.cluster_caller, on = "project", where = "" }]

    # Reading metrics can't be narrowed to those of the cells.
    monitoring = [{ role = "roles/monitoring.viewer", on = "project", where = "" }]

    # The key is a secret of the control plane's own, granted to those who find it in their environment (secrets.tf).
    handoff_sign = []

    # Stripe knows nobody of Google's: its key is a secret (secrets.tf).
    payments = []

    # Users are Firebase's only where Firebase Authentication issues the sessions.
    members = local.firebase ? [{ role = local.custom_roles.member_admin, on = "project", where = "" }] : []

    # Agents are reached on their public hostnames, as anybody reaches them.
    gateway_access = []
  }

  # What every service may do besides: write its traces.
  common_grants = var.trace_ratio > 0 ? [{ role = "roles/cloudtrace.agent", on = "project", where = "" }] : []

  service_grants = merge([
    for service, needs in local.needs_of : {
      for g in distinct(concat(local.common_grants, flatten([for need in needs : local.grants[need]]))) :
      "${service} ${g.role}" => merge(g, { service = service })
    }
  ]...)
}

resource "google_project_iam_member" "service" {
  for_each = { for key, g in local.service_grants : key => g if g.on == "project" }

  project = var.project_id
  role    = each.value.role
  member  = google_service_account.service[each.value.service].member

  dynamic "condition" {
    for_each = each.value.where == "" ? [] : [each.value.where]
    content {
      title      = "only what is the control plane's"
      expression = condition.value
    }
  }

  depends_on = [google_project_iam_custom_role.this]
}

resource "google_pubsub_topic_iam_member" "service" {
  for_each = { for key, g in local.service_grants : key => g if g.on == "nudges" }

  project = var.project_id
  topic   = google_pubsub_topic.this[local.nudge_topic].name
  role    = each.value.role
  member  = google_service_account.service[each.value.service].member
}

# The roles that each need of a function grants. A service has the roles of its functions' needs and no others. A new need is one entry
# here.
#
# on is the resource of the grant: the project or the topic of nudges. where is an IAM condition on a project-level grant; empty means none.

locals {
  this_database = "resource.name == \"projects/${var.project_id}/databases/${local.database}\""
  firebase      = startswith(var.identity_issuer, "https://securetoken.google.com/")
  agent_secrets = "resource.name.startsWith(\"projects/${var.project_number}/secrets/agent-\")"

  grants = {
    firestore = [{ role = "roles/datastore.user", on = "project", where = local.this_database }]
    publish   = [{ role = "roles/pubsub.publisher", on = "nudges", where = "" }]

    # Creating and listing secrets are rights on the project, which no condition on names can narrow. Rights on a secret can be narrowed.
    secret_add = [
      { role = local.custom_roles.secret_creator, on = "project", where = "" },
      { role = local.custom_roles.secret_writer, on = "project", where = local.agent_secrets },
    ]
    secret_read = [{ role = "roles/secretmanager.secretAccessor", on = "project", where = local.agent_secrets }]
    secret_manage = [
      { role = local.custom_roles.secret_creator, on = "project", where = "" },
      { role = local.custom_roles.secret_manager, on = "project", where = local.agent_secrets },
    ]

    # Deleting and marking secrets without reading their values.
    secret_collect = [
      { role = local.custom_roles.secret_lister, on = "project", where = "" },
      { role = local.custom_roles.secret_collector, on = "project", where = local.agent_secrets },
    ]

    # These allow only connecting to the API servers. cell/access.yaml has the RBAC rules of each need.
    cluster_apply   = [{ role = local.custom_roles.cluster_caller, on = "project", where = "" }]
    cluster_look    = [{ role = local.custom_roles.cluster_caller, on = "project", where = "" }]
    cluster_collect = [{ role = local.custom_roles.cluster_caller, on = "project", where = "" }]
    pod_logs        = [{ role = local.custom_roles.cluster_caller, on = "project", where = "" }]

    # Reading metrics cannot be narrowed to the cells' metrics.
    monitoring = [{ role = "roles/monitoring.viewer", on = "project", where = "" }]

    # The signing key is a secret of the control plane; secrets.tf grants it to the services that have it in their environment.
    handoff_sign = []

    # Stripe has no Google identity: its key is a secret (secrets.tf).
    payments = []

    # Only Firebase Authentication needs a role; other identity providers manage members themselves.
    members = local.firebase ? [{ role = local.custom_roles.member_admin, on = "project", where = "" }] : []

    # Agents are reached on their public hostnames.
    gateway_access = []
  }

  # Every service may also write traces.
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
      title      = "only resources of the control plane"
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

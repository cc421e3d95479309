# The roles that each need of a function grants, and why. A service has the roles of its functions' needs and no others. A new need is one
# entry here. The table of rights in README.md is made from this.

locals {
  # Firebase Authentication issues tokens under the project that has the users.
  firebase = var.identity_issuer == "https://securetoken.google.com/${var.project_id}"

  # The project's part of every secret's name, as conditions see it, and the beginnings of the names of agents' secrets. infra/secretmanager
  # makes the names: ENVIRONMENT-agent-ID-credentials, ENVIRONMENT-agent-ID-env-VARIABLE, and ENVIRONMENT-inject-ID-VARIABLE for the brokered
  # secrets, whose values only the gates of the cells read.
  agent_secrets    = "projects/${var.project_number}/secrets/${local.prefix}-agent-"
  brokered_secrets = "projects/${var.project_number}/secrets/${local.prefix}-inject-"
  version_of       = "resource.name.extract(\"/secrets/{name}/versions/\")"

  # The bucket in which the builder publishes clients. bootstrap.sh makes it.
  clients_bucket = "${var.project_id}-${local.prefix}-builds"

  # What a role is granted on: the project, that of the cells, or a topic of nudges. where is an IAM condition on a grant on the project; empty means none.
  places = {
    project  = { on = "project", where = "", scope = "the project" }
    cells    = { on = "cells", where = "", scope = "the project of the cells" }
    nudges   = { on = "nudges", where = "", scope = "the topic of agents' nudges" }
    webhooks = { on = "webhooks", where = "", scope = "the topic of webhooks' nudges" }
    database = {
      on    = "project"
      where = "resource.name == \"projects/${var.project_id}/databases/${local.database}\""
      scope = "the environment's database"
    }
    agent_secrets = {
      on    = "project"
      where = "resource.name.startsWith(\"${local.agent_secrets}\")"
      scope = "the environment's secrets of agents, without the brokered ones"
    }
    brokered_secrets = {
      on    = "project"
      where = "resource.name.startsWith(\"${local.brokered_secrets}\")"
      scope = "the environment's brokered secrets of agents"
    }
    all_agent_secrets = {
      on = "project"
      where = join(" || ", [
        "resource.name.startsWith(\"${local.agent_secrets}\")", "resource.name.startsWith(\"${local.brokered_secrets}\")",
      ])
      scope = "the environment's secrets of agents"
    }
    # The bucket has the releases of the builder, too. A call that lists is about the bucket, and says the prefix of the names.
    clients = {
      on = "project"
      where = join(" || ", [
        "resource.name.startsWith(\"projects/_/buckets/${local.clients_bucket}/objects/clients/\")",
        join(" && ", [
          "resource.name == \"projects/_/buckets/${local.clients_bucket}\"",
          "api.getAttribute(\"storage.googleapis.com/objectListPrefix\", \"\").startsWith(\"clients/\")",
        ]),
      ])
      scope = "the published clients in the environment's bucket of builds"
    }
    # A variable may be named "credentials".
    agent_credentials = {
      on = "project"
      where = join(" && ", [
        "resource.name.startsWith(\"${local.agent_secrets}\")",
        "${local.version_of}.endsWith(\"-credentials\")", "!${local.version_of}.endsWith(\"-env-credentials\")",
      ])
      scope = "the credentials among the environment's secrets of agents"
    }
  }

  grants = {
    firestore = {
      why   = "It reads and writes records. A route also looks up its caller there, and writes the audit log."
      roles = { "roles/datastore.user" = "database" }
    }
    firestore_read = {
      why   = "It reads records and writes none."
      roles = { "roles/datastore.viewer" = "database" }
    }
    publish = {
      why   = "It gives a worker something to do."
      roles = { "roles/pubsub.publisher" = "nudges" }
    }
    nudge_webhooks = {
      why   = "It writes events, which webhooks deliver within seconds, or it changes webhooks."
      roles = { "roles/pubsub.publisher" = "webhooks" }
    }

    # Creating and listing secrets are rights on the project, which no condition on names can narrow. Rights on a secret can be narrowed.
    secret_add = {
      why = "It stores values that a request brings or that it generates, and finds out whether they were stored. It reads no value."
      roles = {
        (local.custom_roles.secret_creator) = "project"
        (local.custom_roles.secret_writer)  = "all_agent_secrets"
      }
    }
    secret_read = {
      why   = "It shows an agent's credentials to an administrator."
      roles = { "roles/secretmanager.secretAccessor" = "agent_credentials" }
    }
    secret_manage = {
      why = "It gives agents their values, generates their first credentials, and deletes what a deleted agent leaves. It reads no brokered value."
      roles = {
        (local.custom_roles.secret_creator)   = "project"
        (local.custom_roles.secret_lister)    = "project"
        (local.custom_roles.secret_manager)   = "agent_secrets"
        (local.custom_roles.secret_destroyer) = "brokered_secrets"
      }
    }
    secret_collect = {
      why = "It marks and deletes secrets without an agent. It reads no value."
      roles = {
        (local.custom_roles.secret_lister)    = "project"
        (local.custom_roles.secret_collector) = "all_agent_secrets"
      }
    }

    # The role allows only connecting to the API servers. cell/access.yaml has the RBAC rules of each need.
    cluster_apply = {
      why   = "It applies and deletes agents' objects in the clusters. RBAC narrows it to these."
      roles = { (local.custom_roles.cluster_caller) = "cells" }
    }
    cluster_look = {
      why   = "It compares agents' objects and pods with their records. RBAC lets it list the metadata and write nothing."
      roles = { (local.custom_roles.cluster_caller) = "cells" }
    }
    cluster_collect = {
      why   = "It deletes namespaces without an agent. RBAC narrows it to these."
      roles = { (local.custom_roles.cluster_caller) = "cells" }
    }
    pod_logs = {
      why   = "It reads agents' logs. RBAC narrows it to these."
      roles = { (local.custom_roles.cluster_caller) = "cells" }
    }
    log_keep = {
      why   = "It keeps the logs of agents' ended containers in the agents' namespaces. RBAC and admission narrow it to these."
      roles = { (local.custom_roles.cluster_caller) = "cells" }
    }
    pod_exec = {
      why   = "It runs commands in agents' containers, for their admins. RBAC and an admission policy narrow it to these."
      roles = { (local.custom_roles.cluster_caller) = "cells" }
    }
    pod_quiesce = {
      why   = "It runs the programs of agents' images that make their volumes quiet for a snapshot. RBAC and an admission policy narrow it to these."
      roles = { (local.custom_roles.cluster_caller) = "cells" }
    }
    monitoring = {
      why   = "It collects agents' metrics. The role cannot be narrowed to those of agents."
      roles = { (local.custom_roles.metric_reader) = "cells" }
    }
    backups_read = {
      why   = "It looks whether the records are backed up. A condition cannot narrow the list of backups to one database."
      roles = { (local.custom_roles.backup_reader) = "project" }
    }

    # The signing key is a secret of the control plane; secrets.tf grants it to the services that have it in their environment.
    handoff_sign = {
      why   = "It signs links to dashboards, and what the newest seal of an audit log is."
      roles = {}
    }

    # The key is a secret of the control plane; secrets.tf grants it to the services that have it in their environment.
    webhook_sign = {
      why   = "It derives the signing secrets of webhooks."
      roles = {}
    }
    webhook_send = {
      why   = "It calls the receivers of webhooks, at public addresses only."
      roles = {}
    }

    # Stripe has no Google identity: its key is a secret (secrets.tf).
    payments = {
      why   = "It calls the payment provider."
      roles = {}
    }

    # Only Firebase Authentication needs a role, in the project that has the users. Other identity providers manage members themselves.
    members = {
      why   = "It reads the users of Firebase Authentication and changes their roles."
      roles = local.firebase ? { (local.custom_roles.member_admin) = "project" } : {}
    }

    clients_read = {
      why   = "It sends the published clients to whoever asks for them."
      roles = { "roles/storage.objectViewer" = "clients" }
    }

    gateway_access = {
      why   = "It calls agents on their public hostnames."
      roles = {}
    }
  }

  # Every service may also write traces.
  common_roles = var.trace_ratio > 0 ? { "roles/cloudtrace.agent" = "project" } : {}

  service_grants = merge([
    for service, needs in local.needs_of : {
      for role, place in merge(concat([local.common_roles], [for need in needs : local.grants[need].roles if need != "nudge_webhooks"])...) :
      "${service} ${role}" => merge(local.places[place], { service = service, role = role })
    }
  ]...)

  # The same role on another topic.
  webhook_grants = merge([
    for service, needs in local.needs_of : {
      for role, place in local.grants.nudge_webhooks.roles : "${service} ${role}" => merge(local.places[place], { service = service, role = role })
    } if contains(needs, "nudge_webhooks")
  ]...)
}

resource "google_project_iam_member" "service" {
  for_each = { for key, g in local.service_grants : key => g if g.on != "nudges" }

  project = each.value.on == "cells" ? local.cells_project : var.project_id
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

  # Another database means other conditions: services have both rights until they use it.
  lifecycle {
    create_before_destroy = true
  }
}

resource "google_pubsub_topic_iam_member" "service" {
  for_each = { for key, g in local.service_grants : key => g if g.on == "nudges" }

  project = var.project_id
  topic   = google_pubsub_topic.this[local.nudge_topic].name
  role    = each.value.role
  member  = google_service_account.service[each.value.service].member
}

resource "google_pubsub_topic_iam_member" "webhooks" {
  for_each = local.webhook_grants

  project = var.project_id
  topic   = google_pubsub_topic.this[local.webhook_topic].name
  role    = each.value.role
  member  = google_service_account.service[each.value.service].member
}

# Custom roles, where Google's predefined roles would grant more than is needed.

locals {
  role_permissions = {
    secret_creator   = ["secretmanager.secrets.create"]
    secret_lister    = ["secretmanager.secrets.list"]
    secret_writer    = ["secretmanager.versions.add", "secretmanager.versions.get", "secretmanager.versions.list"]
    secret_manager   = ["secretmanager.secrets.delete", "secretmanager.versions.access", "secretmanager.versions.add", "secretmanager.versions.destroy"]
    secret_destroyer = ["secretmanager.secrets.delete", "secretmanager.versions.destroy", "secretmanager.versions.get"]
    secret_collector = ["secretmanager.secrets.delete", "secretmanager.secrets.get", "secretmanager.secrets.update"]
    metric_reader    = ["monitoring.timeSeries.list"]
    cluster_caller   = ["container.clusters.connect"]
    backup_reader    = ["datastore.backups.list", "datastore.databases.getMetadata"]
    member_admin     = ["firebaseauth.users.get", "firebaseauth.users.update"]
  }

  # A custom role can be granted in its project only. These are granted where the cells are.
  cells_roles = ["cluster_caller", "metric_reader"]

  role_projects = { for id, _ in local.role_permissions : id => contains(local.cells_roles, id) ? local.cells_project : var.project_id }

  # The names are computed, so that a plan shows them before the roles exist.
  custom_roles = { for id, project in local.role_projects : id => "projects/${project}/roles/${local.prefix}_${id}" }
}

resource "google_project_iam_custom_role" "this" {
  for_each = local.role_permissions

  project     = local.role_projects[each.key]
  role_id     = "${local.prefix}_${each.key}"
  title       = "${local.prefix} ${replace(each.key, "_", " ")}"
  description = "The permissions that functions of the control plane need."
  permissions = each.value
}

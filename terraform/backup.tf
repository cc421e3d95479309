# Copies of agents' volumes by Backup for GKE, if backup_for_gke is set. Daily snapshots, which the workers take, do not depend on it. Package
# infra/gke labels the namespaces of agents whose plan has the feature daily_backups.
# README.md says how to restore and what a backup costs. Backups hold no Kubernetes Secrets: the values are in Secret Manager.

locals {
  backup_label = { key = "agents.example/backup", value = "daily" }

  # The lines that Backup for GKE writes about backups of the cells.
  backups_log = join(" AND ", [
    "logName=\"projects/${local.cells_project}/logs/gkebackup.googleapis.com%2Fbackup_change\"",
    "jsonPayload.backup=~\"/backupPlans/${local.prefix}-(${join("|", sort(keys(var.cells)))})/\"",
  ])
}

resource "google_gke_backup_backup_plan" "cell" {
  for_each = { for name, cell in var.cells : name => cell if var.backup_for_gke }

  project     = local.cells_project
  name        = google_container_cluster.cell[each.key].name
  location    = each.value.region
  cluster     = google_container_cluster.cell[each.key].id
  description = "Volumes of agents whose plan includes daily backups"
  labels      = { environment = local.prefix, cell = each.key }

  backup_config {
    include_volume_data = true
    include_secrets     = false

    # What would be hard to restore in one namespace must not cost all others their backup. The backup's state has the reason.
    permissive_mode = true

    selected_namespace_labels {
      resource_labels {
        key   = local.backup_label.key
        value = local.backup_label.value
      }
    }
  }

  backup_schedule {
    cron_schedule = var.backup_schedule
  }

  retention_policy {
    backup_retain_days = var.backup_retention_days
  }
}

# How README.md restores: it replaces the data of the volumes in a backup and creates what is missing. It leaves all other objects as they
# are: the control plane applies those.
resource "google_gke_backup_restore_plan" "cell" {
  for_each = { for name, cell in var.cells : name => cell if var.backup_for_gke }

  project     = local.cells_project
  name        = google_gke_backup_backup_plan.cell[each.key].name
  location    = each.value.region
  cluster     = google_container_cluster.cell[each.key].id
  backup_plan = google_gke_backup_backup_plan.cell[each.key].id
  description = "Volumes of agents, into the cell that they come from"
  labels      = { environment = local.prefix, cell = each.key }

  restore_config {
    all_namespaces                   = true
    namespaced_resource_restore_mode = "MERGE_REPLACE_VOLUME_ON_CONFLICT"
    volume_data_restore_policy       = "RESTORE_VOLUME_DATA_FROM_BACKUP"

    cluster_resource_restore_scope {
      no_group_kinds = true
    }
  }
}

# The Firestore database. Package infra/firestore declares and tests its indexes.

locals {
  database = var.database == "" ? "agents-${local.prefix}" : var.database
  declared = jsondecode(file("${path.module}/../infra/firestore/indexes.json"))

  # Revisions of the former release serve until those of this one are tested, and again after a roll-back. So an index that no query of this
  # release needs is retired, and is deleted with the next release.
  kept = concat(local.declared.indexes, local.declared.retired)

  # An index is named after its fields. Of two with the same fields, the second one is named after its order, too.
  indexes_by_fields = { for i in local.kept : "${i.collectionGroup} ${join(" ", [for f in i.fields : f.fieldPath])}" => i... }

  indexes = merge([for name, same in local.indexes_by_fields : {
    for n, i in same : n == 0 ? name : "${name} ${i.fields[length(i.fields) - 1].order}" => i
  }]...)

  overrides = { for o in local.declared.fieldOverrides : "${o.collectionGroup} ${o.fieldPath}" => o }
}

resource "google_firestore_database" "records" {
  name                              = local.database
  location_id                       = var.firestore_location == "" ? var.region : var.firestore_location
  type                              = "FIRESTORE_NATIVE"
  concurrency_mode                  = "OPTIMISTIC"
  point_in_time_recovery_enablement = "POINT_IN_TIME_RECOVERY_ENABLED"
  delete_protection_state           = var.deletion_protection ? "DELETE_PROTECTION_ENABLED" : "DELETE_PROTECTION_DISABLED"
  deletion_policy                   = "DELETE"
}

resource "google_firestore_index" "this" {
  for_each = local.indexes

  database    = google_firestore_database.records.name
  collection  = each.value.collectionGroup
  query_scope = each.value.queryScope

  dynamic "fields" {
    for_each = each.value.fields
    content {
      field_path   = fields.value.fieldPath
      order        = try(fields.value.order, null)
      array_config = try(fields.value.arrayConfig, null)
    }
  }

  # Google builds an index in minutes, or in hours for a large collection. One that Terraform stops waiting for is built all the same and is
  # missing in the state, so no later attempt can create it. The build waits longer than this.
  timeouts {
    create = "10h"
  }
}

moved {
  from = google_firestore_index.this["api_keys organization_id expires_at __name__"]
  to   = google_firestore_index.this["api_keys organization_id expires_at __name__ ascending"]
}

resource "google_firestore_field" "this" {
  for_each = local.overrides

  database   = google_firestore_database.records.name
  collection = each.value.collectionGroup
  field      = each.value.fieldPath

  # Exempt fields that no query uses: an index on a growing time limits the write rate.
  index_config {
    dynamic "indexes" {
      for_each = each.value.indexes
      content {
        order       = indexes.value.order
        query_scope = indexes.value.queryScope
      }
    }
  }

  dynamic "ttl_config" {
    for_each = try(each.value.ttl, false) ? [1] : []
    content {}
  }

  # As for indexes.
  timeouts {
    create = "10h"
    update = "10h"
  }
}

# Point-in-time recovery covers seven days, daily backups four weeks, weekly backups fourteen weeks.
resource "google_firestore_backup_schedule" "daily" {
  database  = google_firestore_database.records.name
  retention = "2419200s"

  daily_recurrence {}
}

resource "google_firestore_backup_schedule" "weekly" {
  database  = google_firestore_database.records.name
  retention = "8467200s"

  weekly_recurrence {
    day = "SUNDAY"
  }
}

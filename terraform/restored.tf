# Takes over a database that restore.sh restored, instead of creating one: only Firestore knows the ids of its indexes. Without restored.json,
# or with that of another database than the one in use, nothing is imported. Terraform imports nothing that is in its state already.

locals {
  restored_file = "${path.module}/restored.json"
  restored_any  = jsondecode(fileexists(local.restored_file) ? file(local.restored_file) : "{}")
  restored      = { for what, found in local.restored_any : what => found if try(local.restored_any.database, "") == local.database }

  # An index is known by its collection, scope and fields, in their order. Names are projects/P/databases/D/collectionGroups/C/indexes/I.
  index_forms = {
    for key, i in local.indexes : key => join(" ", concat(
      [i.collectionGroup, i.queryScope], [for f in i.fields : "${f.fieldPath} ${try(f.order, f.arrayConfig)}"],
    ))
  }
  restored_indexes = {
    for i in try(local.restored.indexes, []) : join(" ", concat(
      [split("/", i.name)[5], i.queryScope], [for f in i.fields : "${f.fieldPath} ${try(f.order, f.arrayConfig)}"],
    )) => i.name
  }
  restored_fields = {
    for f in try(local.restored.fields, []) : "${split("/", f.name)[5]} ${split("/", f.name)[7]}" => f.name
    if split("/", f.name)[5] != "__default__"
  }

  imported_indexes = { for key, form in local.index_forms : key => local.restored_indexes[form] if contains(keys(local.restored_indexes), form) }
  imported_fields  = { for key, name in local.restored_fields : key => name if contains(keys(local.overrides), key) }

  # What the restored database lacks, and what it has that nothing declares.
  not_restored = length(local.restored) == 0 ? [] : concat(
    [for key, _ in local.index_forms : "index ${key}" if !contains(keys(local.imported_indexes), key)],
    [for key, _ in local.overrides : "field ${key}" if !contains(keys(local.imported_fields), key)],
  )
  not_declared = concat(
    [for form, _ in local.restored_indexes : "index ${form}" if !contains(values(local.index_forms), form)],
    [for key, _ in local.restored_fields : "field ${key}" if !contains(keys(local.overrides), key)],
  )
}

import {
  for_each = length(local.restored) == 0 ? [] : ["projects/${var.project_id}/databases/${local.database}"]
  to       = google_firestore_database.records
  id       = each.value
}

import {
  for_each = local.imported_indexes
  to       = google_firestore_index.this[each.key]
  id       = each.value
}

import {
  for_each = local.imported_fields
  to       = google_firestore_field.this[each.key]
  id       = each.value
}

# A backup has no schedules. These exist if a deployment made them and ended before it wrote the state.
import {
  for_each = [for s in try(local.restored.schedules, []) : s.name if can(s.dailyRecurrence)]
  to       = google_firestore_backup_schedule.daily
  id       = each.value
}

import {
  for_each = [for s in try(local.restored.schedules, []) : s.name if can(s.weeklyRecurrence)]
  to       = google_firestore_backup_schedule.weekly
  id       = each.value
}

check "restored" {
  assert {
    condition     = length(local.not_restored) == 0
    error_message = "The restored database lacks, and Terraform creates: ${join("; ", local.not_restored)}."
  }

  assert {
    condition     = length(local.not_declared) == 0
    error_message = "The restored database has, and Terraform leaves alone, what infra/firestore/indexes.json does not declare: ${join("; ", local.not_declared)}."
  }
}

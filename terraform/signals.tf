# What is counted from the functions' log, beside what Google counts by itself: every call writes one line.

locals {
  functions_log = "resource.type=\"cloud_run_revision\" AND resource.labels.service_name=~\"^${local.prefix}-\""

  # Counters of lines, by what they say. message is the line's own text.
  events = {
    expired        = { message = "sweep", filter = "jsonPayload.expired>0", about = "work on an agent that was ended at its deadline" }
    dead_lettered  = { message = "the work on an agent was delivered too often", filter = "", about = "nudges that were given up" }
    drift          = { message = "an organization's usage was not what it holds; it was repaired", filter = "", about = "wrong usage, repaired" }
    missing_audit  = { message = "a call is missing in the audit log", filter = "", about = "calls without an entry in the audit log" }
    many_orphans   = { message = "more orphaned namespaces than one run may delete", filter = "", about = "orphans that were left alone" }
    many_podless   = { message = "many running agents have no pod", filter = "", about = "fleets that seem to have vanished" }
    agents_broke   = { message = "a running agent broke", filter = "", about = "agents that went from running to error" }
    nudges_not_got = { message = "the worker was not nudged; the sweep will do it", filter = "", about = "nudges that were not published" }
  }
}

resource "google_logging_metric" "calls" {
  name        = "${local.prefix}_calls"
  description = "Calls of functions, by function and status"
  filter      = "${local.functions_log} AND jsonPayload.function:*"

  label_extractors = {
    function = "EXTRACT(jsonPayload.function)"
    status   = "EXTRACT(httpRequest.status)"
  }

  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "INT64"

    labels {
      key        = "function"
      value_type = "STRING"
    }

    labels {
      key        = "status"
      value_type = "STRING"
    }
  }
}

resource "google_logging_metric" "event" {
  for_each = local.events

  name        = "${local.prefix}_${each.key}"
  description = "Counts ${each.value.about}"
  filter = join(" AND ", compact([
    local.functions_log, "jsonPayload.message:\"${each.value.message}\"", each.value.filter,
  ]))

  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "INT64"
  }
}

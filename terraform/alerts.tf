# Who is woken, and what for. Each alert says what to do first; the README's section "Operate" says the rest. Queries are PromQL without
# validation of names, because a metric of a log exists only after its first line.

locals {
  route_services = join("|", [for service, s in local.services : local.names[service] if s.public])
  scheduled      = { for name, w in local.workers : name => w if try(w.schedule, "") != "" }

  # Log counters, as PromQL calls them.
  counted = { for name in keys(local.events) : name => "logging_googleapis_com:user_${local.prefix}_${name}" }
  calls   = "logging_googleapis_com:user_${local.prefix}_calls"

  # How long a worker that runs every minute, or every hour, may be silent. Alerts can't look back far enough for rarer ones: their
  # failures show as messages that wait.
  patience = merge(
    { for name, w in local.scheduled : name => { back = "15m", for = "300s" } if startswith(w.schedule, "*") },
    { for name, w in local.scheduled : name => { back = "2h", for = "3600s" } if can(regex("^[0-9,]+ \\*", w.schedule)) },
  )

  event_alerts = {
    agents_expired = {
      title = "Agents are stuck", severity = "ERROR", for = "60s", query = "sum(increase(${local.counted.agents_expired}[15m])) > 0"
      todo  = "Work on agents was ended at its deadline, and they are in error now; config.error says at which stage. One agent: its image or its volume. Many: the cell (nodes, quota, the Gateway) or the worker's log."
    }
    nudge_dead_lettered = {
      title = "Nudges are given up", severity = "ERROR", for = "60s", query = "sum(increase(${local.counted.nudge_dead_lettered}[15m])) > 0"
      todo  = "An agent failed 20 times. Its id is in the log line; its config.error says why. Once the cause is gone: POST /api/v1/agents/{id}/restart."
    }
    errors = {
      title = "The API fails", severity = "CRITICAL", for = "300s"
      query = join("", [
        "sum(rate(run_googleapis_com:request_count{monitored_resource=\"cloud_run_revision\",service_name=~\"${local.route_services}\",response_code_class=\"5xx\"}[5m]))",
        " / sum(rate(run_googleapis_com:request_count{monitored_resource=\"cloud_run_revision\",service_name=~\"${local.route_services}\"}[5m])) > 0.02",
      ])
      todo = "More than 2 % of requests end in 5xx. Error Reporting groups the causes; /health/ready names the system that is down. After a deployment: roll back first."
    }
    oldest = {
      title = "Nudges wait", severity = "WARNING", for = "600s"
      query = "max(pubsub_googleapis_com:subscription_oldest_unacked_message_age{monitored_resource=\"pubsub_subscription\",subscription_id=~\"${local.prefix}-.*\"}) > 1800"
      todo  = "A message has waited for half an hour. See whether the worker answers 503 (its log) or is at its most instances (raise scaling)."
    }
    usage_drift_repaired = {
      title = "Usage had drifted", severity = "WARNING", for = "60s", query = "sum(increase(${local.counted.usage_drift_repaired}[1h])) > 0"
      todo  = "An organization's usage was not what it holds and was repaired. It is the trace of a defect: the line has both counts; report it with the organization's audit log of that day."
    }
    orphan_limit_exceeded = {
      title = "The sweep refuses to delete", severity = "CRITICAL", for = "60s"
      query = "sum(increase(${local.counted.orphan_limit_exceeded}[2h])) + sum(increase(${local.counted.missing_pod_limit_exceeded}[2h])) > 0"
      todo  = "Clusters and records do not fit: check FIRESTORE_DATABASE and CELLS of the workers, and whether the database was restored. Nothing was deleted."
    }
    audit_entry_missing = {
      title = "The audit log has a gap", severity = "ERROR", for = "60s", query = "sum(increase(${local.counted.audit_entry_missing}[15m])) > 0"
      todo  = "The line holds the entry; Firestore refused it. Keep the line."
    }
  }

  silent_alerts = {
    for name, patience in local.patience : "silent ${name}" => {
      title = "${name} does not run", severity = "ERROR", for = patience.for
      query = "absent_over_time(${local.calls}{monitored_resource=\"cloud_run_revision\",function=\"${name}\",status=~\"2..\"}[${patience.back}])"
      todo  = "No run succeeded in ${patience.back}. Is the job ${local.prefix}-${local.own_service[name]} of Cloud Scheduler enabled? What does the worker's log say?"
    }
  }

  alerts = merge(local.event_alerts, local.silent_alerts)
}

resource "google_monitoring_notification_channel" "email" {
  for_each = toset(var.alert_emails)

  display_name = "${local.prefix}: ${each.value}"
  type         = "email"
  labels       = { email_address = each.value }
}

resource "google_monitoring_alert_policy" "this" {
  for_each = local.alerts

  display_name          = "${local.prefix}: ${each.value.title}"
  combiner              = "OR"
  severity              = each.value.severity
  notification_channels = [for c in google_monitoring_notification_channel.email : c.id]

  conditions {
    display_name = each.value.title

    condition_prometheus_query_language {
      query                     = each.value.query
      duration                  = each.value.for
      evaluation_interval       = "60s"
      disable_metric_validation = true
    }
  }

  alert_strategy {
    auto_close = "3600s"
  }

  documentation {
    content   = each.value.todo
    mime_type = "text/markdown"
    subject   = "${local.prefix}: ${each.value.title}"
  }

  depends_on = [google_logging_metric.calls, google_logging_metric.event]
}

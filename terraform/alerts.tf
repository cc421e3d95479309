# Alert policies. Each one says what to do first, and README.md has a section for each with a query to paste. The alerts are in alerts_log.tf
# (single log lines), alerts_agents.tf (what users of agents notice, and the cells) and alerts_service.tf (the API, the workers and what
# they call).

locals {
  metric_alerts = merge(local.agent_alerts, local.service_alerts, local.silent_alerts)

  # Maintenance makes these true: the API refuses calls, and workers get no messages.
  true_in_maintenance = concat(["api_out_of_reach", "errors", "oldest"], keys(local.silent_alerts))

  log_alert_projects = { for name, alert in local.log_alerts : name => try(alert.of_cells, false) ? local.cells_project : var.project_id }

  # The recipients of alerts, by project.
  channels = merge(
    { (local.cells_project) = [for c in google_monitoring_notification_channel.cells_email : c.id] },
    { (var.project_id) = [for c in google_monitoring_notification_channel.email : c.id] },
  )
}

resource "google_monitoring_notification_channel" "email" {
  for_each = toset(var.alert_emails)

  display_name = "${local.prefix}: ${each.value}"
  type         = "email"
  labels       = { email_address = each.value }

  # Alerts and budgets stop using a channel before it is deleted. Google deletes none that is in use.
  lifecycle {
    create_before_destroy = true
  }
}

resource "google_monitoring_notification_channel" "cells_email" {
  for_each = toset(length(local.separate) == 0 ? [] : var.alert_emails)

  project      = local.cells_project
  display_name = "${local.prefix}: ${each.value}"
  type         = "email"
  labels       = { email_address = each.value }

  lifecycle {
    create_before_destroy = true
  }
}

# Metric validation is off because a log-based metric exists only after its first log line. Google bills the series that a query returns each
# time, so a query with a series for each agent runs every ten minutes.
resource "google_monitoring_alert_policy" "this" {
  for_each = local.metric_alerts

  display_name          = "${local.prefix}: ${each.value.title}"
  enabled               = !(var.maintenance && contains(local.true_in_maintenance, each.key))
  combiner              = "OR"
  severity              = each.value.severity
  notification_channels = [for c in google_monitoring_notification_channel.email : c.id]

  conditions {
    display_name = each.value.title

    condition_prometheus_query_language {
      query                     = each.value.query
      duration                  = each.value.for
      evaluation_interval       = try(each.value.every, "60s")
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

  depends_on = [google_logging_metric.calls, google_logging_metric.event, google_logging_metric.start]
}

# Such a policy sees the lines of its project only, and notifies channels of its project. A log-match condition sees every line within seconds, also the first of its kind. It is the only condition of its policy, and needs a
# limit of notifications.
resource "google_monitoring_alert_policy" "log" {
  for_each = local.log_alerts

  project               = local.log_alert_projects[each.key]
  display_name          = "${local.prefix}: ${each.value.title}"
  combiner              = "OR"
  severity              = each.value.severity
  notification_channels = local.channels[local.log_alert_projects[each.key]]

  conditions {
    display_name = each.value.title

    condition_matched_log {
      filter = "${try(each.value.log, local.control_plane_log)} AND ${each.value.lines}"
    }
  }

  alert_strategy {
    auto_close = "3600s"

    notification_rate_limit {
      period = "3600s"
    }
  }

  documentation {
    content   = each.value.todo
    mime_type = "text/markdown"
    subject   = "${local.prefix}: ${each.value.title}"
  }
}

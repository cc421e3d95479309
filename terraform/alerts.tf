# Alert policies. Each one says what to do first; README.md has a section for each with the log query to paste. Metric validation is off
# because a log-based metric exists only after its first log line.

locals {
  route_services = join("|", [for service, s in local.services : local.names[service] if s.public])

  # The PromQL names of the log-based counters.
  counted = { for name in keys(local.events) : name => "logging_googleapis_com:user_${local.prefix}_${name}" }
  starts  = "logging_googleapis_com:user_${local.prefix}_agent_start_seconds"
  calls   = "logging_googleapis_com:user_${local.prefix}_calls"

  # Requests to agents, counted by the router.
  agent_requests = "http_requests_total"

  # Workers that run every minute or every few minutes. One failed run of theirs is repaired by the next.
  frequent = join("|", [for name, w in local.scheduled : name if startswith(w.schedule, "*")])

  # How long a worker that runs every few minutes or every hour may be silent. Alerts cannot look back far enough for workers that run
  # less often.
  silence_windows = merge(
    { for name, w in local.scheduled : name => { back = "15m", for = "300s" } if startswith(w.schedule, "*") },
    { for name, w in local.scheduled : name => { back = "2h", for = "3600s" } if can(regex("^[0-9,]+ \\*", w.schedule)) },
  )

  event_alerts = {
    agents_expired = {
      title = "Agents missed their deadline", severity = "ERROR", for = "60s", query = "sum(increase(${local.counted.agents_expired}[15m])) > 0"
      todo  = "The pods of agents were not ready at their deadline; the agents are in error now. config.error names the reason. One agent: check its image and its volume. Many agents: check the cell (nodes, quota, router) and the worker's log."
    }
    router = {
      title = "A cell has too few routers", severity = "CRITICAL", for = "120s"
      query = join(" or ", [
        for cell in keys(var.cells) :
        "((sum(up{cluster=\"${local.prefix}-${cell}\",namespace=\"${local.gateway.namespace}\",job=\"agent-router\"}) or vector(0)) < 2)"
      ])
      todo = "Fewer than two routers of a cell answer. Without a router no agent of the cell can be reached. Look at the pods and events of the Deployment agent-router in the namespace agent-gateway: nodes, image, API server."
    }
    agents_unreachable = {
      title = "Agents do not answer", severity = "CRITICAL", for = "300s"
      query = join("", [
        "count by (cluster) (sum by (cluster, host) (rate(${local.agent_requests}{code=~\"502|503|504\"}[5m])) > 0) > 5 and ",
        "count by (cluster) (sum by (cluster, host) (rate(${local.agent_requests}{code=~\"502|503|504\"}[5m])) > 0)",
        " / count by (cluster) (sum by (cluster, host) (rate(${local.agent_requests}[5m])) > 0) > 0.2",
      ])
      todo = "The router of a cell answers for more than a fifth of the agents that are called, because their pods do not. One agent's failures raise no alert: its code may be the cause. Look for nodes that are upgraded or lost, and at the router's log."
    }
    slow_starts = {
      title = "New agents start slowly", severity = "WARNING", for = "300s"
      query = "histogram_quantile(0.5, sum by (le) (increase(${local.starts}_bucket[1h]))) > 60 and sum(increase(${local.starts}_count[1h])) >= 5"
      todo  = "Half of the new agents of the last hour took longer than a minute to run. Most often they wait for nodes: look at the placeholders in the namespace agent-warm and at the project's quotas, or raise warm_agents. The stages of an agent say which step took long."
    }
    nudge_dead_lettered = {
      title = "Work on an agent was given up", severity = "ERROR", for = "60s", query = "sum(increase(${local.counted.nudge_dead_lettered}[15m])) > 0"
      todo  = "Work on an agent failed 20 times, not counting outages. The log line has its ID; its config.error has the reason. Fix the cause, then POST /api/v1/agents/{agent_id}/restart."
    }
    errors = {
      title = "The API is failing", severity = "CRITICAL", for = "300s"
      query = join("", [
        "sum(rate(run_googleapis_com:request_count{monitored_resource=\"cloud_run_revision\",service_name=~\"${local.route_services}\",response_code_class=\"5xx\"}[5m]))",
        " / sum(rate(run_googleapis_com:request_count{monitored_resource=\"cloud_run_revision\",service_name=~\"${local.route_services}\"}[5m])) > 0.02",
      ])
      todo = "More than 2 % of requests end in 5xx. After a deployment, roll back first. Error Reporting groups the causes; /health/ready names the system that is down. Running agents are not affected."
    }
    oldest = {
      title = "Nudges are waiting", severity = "WARNING", for = "600s"
      query = "max(pubsub_googleapis_com:subscription_oldest_unacked_message_age{monitored_resource=\"pubsub_subscription\",subscription_id=~\"${local.prefix}-.*\"}) > 1800"
      todo  = "A message has waited for half an hour. Check whether the worker answers 503 (its log says why) or runs at its maximum number of instances (raise scaling)."
    }
    usage_drift_repaired = {
      title = "Usage drifted", severity = "WARNING", for = "60s", query = "sum(increase(${local.counted.usage_drift_repaired}[1h])) > 0"
      todo  = "The recorded usage of an organization differed from what its agents hold. It was repaired, but it indicates a bug: the log line has both counts. Report it with the organization's audit log of that day."
    }
    orphan_limit_exceeded = {
      title = "Cleanup refused to delete", severity = "CRITICAL", for = "60s"
      query = "sum(increase(${local.counted.orphan_limit_exceeded}[2h])) + sum(increase(${local.counted.orphan_unproven}[2h])) + sum(increase(${local.counted.missing_pod_limit_exceeded}[2h])) > 0"
      todo  = "Many namespaces or secrets have no agent, a whole cell has no known agent, or many running agents have no pod. Nothing was deleted, and nothing will be while this lasts. Check FIRESTORE_DATABASE and CELLS of the workers, and whether the database was restored."
    }
    plan_unknown = {
      title = "A plan is unknown", severity = "ERROR", for = "60s", query = "sum(increase(${local.counted.plan_unknown}[15m])) > 0"
      todo  = "An organization or an agent is on a plan that this release does not know, as after a roll-back. Billing leaves its agents as they are. Deploy a release that knows the plan that the log line names."
    }
    scheduled_run_failed = {
      title = "Scheduled work fails", severity = "ERROR", for = "60s"
      query = join("", [
        "sum by (worker) (increase(${local.counted.scheduled_run_failed}{worker=~\"${local.frequent}\"}[15m])) > 5",
        " or sum by (worker) (increase(${local.counted.scheduled_run_failed}{worker!~\"${local.frequent}\"}[2h])) > 0",
      ])
      todo = "Runs of the worker that the alert names fail, in whole or for some of the agents. A tick is not delivered again; the next one repeats the work. The log line has the errors: a cell that is down, a record, a permission."
    }
    drift_limit_exceeded = {
      title = "Many agents' objects differ from their records", severity = "ERROR", for = "60s", query = "sum(increase(${local.counted.drift_limit_exceeded}[1h])) > 0"
      todo  = "The drift check repairs 100 agents in ten minutes. After a release that changes policies or routes this is expected and ends by itself. Otherwise something changes or deletes agents' objects, or CELLS names the wrong clusters: the lines of event drift_repaired have the objects."
    }
    agent_data_lost = {
      title = "An agent lost its volume", severity = "ERROR", for = "60s", query = "sum(increase(${local.counted.agent_data_lost}[1h])) > 0"
      todo  = "The namespace or the volume claim of a running agent was deleted outside the control plane. The line has the agent and the cell. Restore the volume from its backup (README.md, Restore), or stop and start the agent, which begins with an empty volume. Many agents: CELLS of the workers may name the wrong clusters."
    }
    record_unreadable = {
      title = "A record cannot be read", severity = "ERROR", for = "60s", query = "sum(increase(${local.counted.record_unreadable}[1h])) > 0"
      todo  = "A list left out a record that this release cannot decode, so no worker attends to it. The log line has its collection, its ID and the field: repair the document, or roll back to the release that wrote it."
    }
    audit_entry_missing = {
      title = "The audit log has a gap", severity = "ERROR", for = "60s", query = "sum(increase(${local.counted.audit_entry_missing}[15m])) > 0"
      todo  = "Firestore refused an audit entry. The log line has the entry: keep it."
    }
  }

  silent_alerts = {
    for name, window in local.silence_windows : "silent ${name}" => {
      title = "${name} does not run", severity = "ERROR", for = window.for
      query = "absent_over_time(${local.calls}{monitored_resource=\"cloud_run_revision\",function=\"${name}\",status=~\"2..\"}[${window.back}])"
      todo  = "No tick was answered in ${window.back}. Check that the Cloud Scheduler job ${local.prefix}-${local.own_service[name]} is enabled, then read the worker's log."
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

  depends_on = [google_logging_metric.calls, google_logging_metric.event, google_logging_metric.start]
}

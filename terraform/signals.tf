# Metrics from the functions' log, in addition to those that Google provides. Every call writes one line, but of calls without a known caller
# or over a limit each instance writes ten a second (package shared/function): Cloud Run's own metric counts all requests.

locals {
  functions_log = "resource.type=\"cloud_run_revision\" AND resource.labels.service_name=~\"^${local.prefix}-\""

  # The functions' log, and that of the router and the notifier of each cell.
  control_plane_log = "((${local.functions_log}) OR (resource.type=\"k8s_container\" AND resource.labels.cluster_name=~\"^${local.prefix}-\" AND resource.labels.namespace_name=\"${local.gateway.namespace}\"))"

  # The PromQL names of the log-based metrics. A query must name the resource, because such a metric may have several.
  counters     = { for name in keys(local.events) : name => "logging_googleapis_com:user_${local.prefix}_${name}" }
  starts       = "logging_googleapis_com:user_${local.prefix}_agent_start_seconds"
  calls        = "logging_googleapis_com:user_${local.prefix}_calls"
  on_functions = "monitored_resource=\"cloud_run_revision\""

  # The counters of events that functions log.
  counted = { for name, counter in local.counters : name => "${counter}{${local.on_functions}}" }

  # The log lines that are counted: the names of package shared/logevent, which lines carry as the attribute event.
  events = {
    agents_expired             = "agents whose pod was not ready at its deadline"
    nudge_dead_lettered        = "agents whose work was given up after too many attempts"
    nudge_not_published        = "nudges that could not be published"
    usage_drift_repaired       = "organizations whose recorded usage was wrong and was repaired"
    audit_entry_missing        = "calls whose audit entry could not be written"
    orphan_limit_exceeded      = "runs that found more orphans than one run may delete and touched none"
    several_subscriptions      = "checks of accounts that found more than one live subscription of an organization"
    plan_unknown               = "checks of accounts that left agents as they are because the release does not know a plan"
    orphan_unproven            = "orphans that were left alone because no listed agent of their place has a record"
    missing_pod_limit_exceeded = "runs that found more running agents without a pod than one run may repair"
    scheduled_run_failed       = "runs of scheduled workers that failed in whole or in part"
    drift_repaired             = "agents whose objects differed from their records and were applied again"
    drift_limit_exceeded       = "runs that found more agents whose objects differ than one run may repair"
    agent_data_lost            = "checks that found an agent without its namespace or its volume claim"
    snapshot_failed            = "daily snapshots of agents' volumes that could not be taken"
    records_not_backed_up      = "checks that found no backup of the records from the last two days"
    record_unreadable          = "records that could not be decoded and were left out of a list"
    secret_budget_exhausted    = "requests refused because all requests together reached their share of Secret Manager's quota"
    free_agents_near_maximum   = "counts that found the agents of organizations on free plans near the maximum of the deployment"
    agent_started              = "new agents that run for the first time"
    agent_broke                = "agents that went from running to error"
    release_stopped            = "releases that stopped themselves"
    release_step               = "steps of releases: agents that were moved or judged, waves that began, ends"
  }

  # A metric counts the lines of its project. The notifiers of the cells log these events.
  cells_events = ["nudge_not_published"]
  counted_events = merge(
    { for event, _ in local.events : event => { event = event, project = var.project_id } },
    length(local.separate) == 0 ? {} : { for event in local.cells_events : "cells ${event}" => { event = event, project = local.cells_project } },
  )
}

# The alerts, the dashboard and the functions read the metrics of both projects in that of the control plane.
resource "google_monitoring_monitored_project" "cells" {
  for_each = toset(local.separate)

  metrics_scope = var.project_id
  name          = local.cells_project
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

# How long clients wait for a new agent.
resource "google_logging_metric" "start" {
  name            = "${local.prefix}_agent_start_seconds"
  description     = "Seconds from the request for a new agent until it runs"
  filter          = "${local.functions_log} AND jsonPayload.event=\"agent_started\""
  value_extractor = "EXTRACT(jsonPayload.seconds)"

  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "DISTRIBUTION"
    unit        = "s"
  }

  bucket_options {
    explicit_buckets {
      bounds = [2, 5, 10, 15, 20, 25, 30, 45, 60, 90, 120, 180, 300, 600, 900]
    }
  }
}

resource "google_logging_metric" "event" {
  for_each = local.counted_events

  project     = each.value.project
  name        = "${local.prefix}_${each.value.event}"
  description = "Counts ${local.events[each.value.event]}"
  filter      = "${local.control_plane_log} AND jsonPayload.event=\"${each.value.event}\""

  # The worker that the line names; empty for lines that name none.
  label_extractors = { worker = "EXTRACT(jsonPayload.worker)" }

  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "INT64"

    labels {
      key        = "worker"
      value_type = "STRING"
    }
  }
}

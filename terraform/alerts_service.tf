# Alerts about the API, the workers and what they call.

locals {
  route_services = join("|", [for service, s in local.services : local.names[service] if s.public])
  on_routes      = "monitored_resource=\"cloud_run_revision\",service_name=~\"${local.route_services}\""

  # How long a worker may be silent: twice its longest pause and the delay of the metric.
  silence_windows = merge(
    { for name in concat(local.minutely, local.often) : name => { back = "30m", for = "300s" } },
    { for name in local.seldom : name => { back = "3h", for = "600s" } if !contains(local.daily, name) },
    { for name in local.daily : name => { back = "50h", for = "600s" } },
  )

  # The answered ticks of a worker, and how many of the sweep's in 50 hours say that there were ticks for long enough that each daily worker
  # must have had one: not in the first two days of a deployment, nor after a maintenance.
  ticks = { for name, w in local.scheduled : name => join("", [
    "pubsub_googleapis_com:subscription_push_request_count{monitored_resource=\"pubsub_subscription\",",
    "subscription_id=\"${local.prefix}-${local.own_service[name]}\",response_class=\"ack\"}",
  ]) }
  ticks_of_two_days = "sum(increase(${local.ticks.SweepAgents}[50h])) > 45 * 60"

  # Publishers of nudges: functions, and the notifiers of the cells.
  publishers = [local.on_functions, "monitored_resource=\"k8s_container\""]

  # The used share of each quota. Usage is reported again after a day if it does not change. A limit below zero is none.
  quota_use = join(" / ", [
    "max by (project_id, quota_metric, location) (last_over_time(serviceruntime_googleapis_com:quota_allocation_usage{monitored_resource=\"consumer_quota\"}[1d]))",
    "min by (project_id, quota_metric, location) (last_over_time(serviceruntime_googleapis_com:quota_limit{monitored_resource=\"consumer_quota\"}[1d]) > 0)",
  ])

  # The used share of Secret Manager's quotas of requests a minute, over five minutes.
  on_secrets = "monitored_resource=\"consumer_quota\",service=\"secretmanager.googleapis.com\""
  secret_use = join(" / ", [
    "60 * sum by (project_id, quota_metric, location) (rate(serviceruntime_googleapis_com:quota_rate_net_usage{${local.on_secrets}}[5m]))",
    "min by (project_id, quota_metric, location) (last_over_time(serviceruntime_googleapis_com:quota_limit{${local.on_secrets}}[1d]) > 0)",
  ])

  # What the API and the log must get before an operator should look: 100 requests a second, which cost about $15 a day with Cloud Armor, and
  # lines of $1 in an hour. What is not more than five times that of the hour a day before is growth.
  requests  = "run_googleapis_com:request_count{${local.on_routes}}"
  log_bytes = "logging_googleapis_com:billing_bytes_ingested{monitored_resource=\"global\"}"
  flood_alert = {
    requests_per_second = 100
    log_bytes_an_hour   = 2 * 1024 * 1024 * 1024
  }

  # What a service may send in a day before the operator should look: 100 GiB, which cost about $12 if all of it goes to the internet.
  sent_limit = 100 * 1024 * 1024 * 1024
  on_names   = "monitored_resource=\"cloud_run_revision\",service_name=~\"${join("|", values(local.names))}\""

  service_alerts = {
    api_out_of_reach = {
      title = "The API is out of reach", severity = "CRITICAL", for = "120s"
      query = "avg(avg_over_time(monitoring_googleapis_com:uptime_check_check_passed{monitored_resource=\"uptime_url\",host=\"${local.uptime_checks.api.host}\"}[5m])) < 0.5"
      todo  = "Requests from outside to the API's /health/ready fail. If /health/live answers, the body of /health/ready names the system that is down. Otherwise follow the way of a request: DNS, certificate, load balancer, Cloud Armor, Cloud Run."
    }
    errors = {
      title = "The API is failing", severity = "CRITICAL", for = "300s"
      query = join("", [
        "sum(rate(run_googleapis_com:request_count{${local.on_routes},response_code_class=\"5xx\"}[5m]))",
        " / sum(rate(run_googleapis_com:request_count{${local.on_routes}}[5m])) > 0.02",
      ])
      todo = "More than 2 % of requests end in 5xx. After a deployment, roll back first. Error Reporting groups the causes; /health/ready names the system that is down. Running agents are not affected."
    }
    requests = {
      title = "Many more requests than a day before", severity = "WARNING", for = "300s"
      query = join("", [
        "sum(rate(${local.requests}[15m])) > ${local.flood_alert.requests_per_second}",
        " unless sum(rate(${local.requests}[15m])) <= 5 * sum(rate(${local.requests}[1h] offset 23h))",
      ])
      todo = "The API gets more than ${local.flood_alert.requests_per_second} requests a second, and more than five times as many as in the same hour of the day before. Each costs money, also if it is refused. Look at the addresses and callers in the log. An organization: suspend it with the operator's tool. Addresses without a valid token: deny them in Cloud Armor."
    }
    log_bytes = {
      title = "Many more log lines than a day before", severity = "WARNING", for = "300s"
      query = join("", [
        "sum by (project_id) (increase(${local.log_bytes}[1h])) > ${local.flood_alert.log_bytes_an_hour}",
        " unless sum by (project_id) (increase(${local.log_bytes}[1h])) <= 5 * sum by (project_id) (increase(${local.log_bytes}[1h] offset 23h))",
      ])
      todo = "The log of the project that the alert names got more than 2 GiB within an hour, and more than five times as much as in the same hour of the day before. A GiB costs $0.50. Look at the most frequent lines in Logs Explorer, and add an exclusion to logging.tf if they are of no use."
    }
    sent = {
      title = "A service sends much data", severity = "WARNING", for = "600s"
      query = "sum by (service_name) (increase(run_googleapis_com:container_network_sent_bytes_count{${local.on_names}}[1d])) > ${local.sent_limit}"
      todo  = "The Cloud Run service that the alert names sent more than 100 GiB within a day. A GiB to the internet costs about $0.12. Most often someone exports volumes, reads files or copies from terminals again and again: the audit log has the bytes of each export and command, and the log the callers of each route. Suspend an organization that misuses it with the operator's tool. If it is growth, raise sent_limit."
    }
    oldest = {
      title = "Nudges are waiting", severity = "WARNING", for = "600s"
      query = "max by (subscription_id) (pubsub_googleapis_com:subscription_oldest_unacked_message_age{monitored_resource=\"pubsub_subscription\",subscription_id=~\"${local.prefix}-.*\"}) > 1800"
      todo  = "A message of the subscription that the alert names, which has the name of its worker, has waited for half an hour. Check whether the worker answers 503 (its log says why) or runs at its maximum number of instances (raise scaling)."
    }
    nudges_not_published = {
      title = "Nudges are not published", severity = "WARNING", for = "60s"
      query = join(" or ", [for where in local.publishers : "sum(increase(${local.counters.nudge_not_published}{${where}}[15m])) > 10"])
      todo  = "Functions or the notifier of a cell could not publish more than ten nudges within 15 minutes. The sweep repeats them, so agents change a minute or two later, and webhooks deliver up to 15 minutes later. Look at the status of Pub/Sub, at the topic and at its publishers' rights."
    }
    scheduled_run_failed = {
      title = "Scheduled work fails", severity = "ERROR", for = "60s"
      query = join(" or ", [
        "sum by (worker) (increase(${local.counters.scheduled_run_failed}{${local.on_functions},worker=~\"${join("|", local.minutely)}\"}[15m])) > 5",
        "sum by (worker) (increase(${local.counters.scheduled_run_failed}{${local.on_functions},worker=~\"${join("|", local.often)}\"}[1h])) > 2",
      ])
      todo = "Runs of the worker that the alert names fail, in whole or for some of the agents. A tick is not delivered again; the next one repeats the work. The log line has the errors: a cell that is down, a record, a permission."
    }
    quota = {
      title = "A quota is nearly used up", severity = "WARNING", for = "600s", every = "600s", query = "${local.quota_use} > 0.8"
      todo  = "More than 80 % of the quota that the alert names is used. At its limit no more nodes, disks or services are created, so no new agents start. Ask for more on the page Quotas & System Limits, or add a cell in another region."
    }
    secret_quota = {
      title = "Secret Manager's quota is nearly used up", severity = "WARNING", for = "60s", query = "${local.secret_use} > 0.8"
      todo  = "More than 80 % of a quota of Secret Manager was used over five minutes. Requests take at most half of the writes, so workers write the rest: many new agents, a sweep after an outage, or another environment of the project. At the limit, agents start later. Ask for a higher quota."
    }
    throttled = {
      title = "Google refuses requests", severity = "ERROR", for = "300s"
      query = "sum by (service) (increase(serviceruntime_googleapis_com:api_request_count{monitored_resource=\"consumed_api\",service=~\"firestore.googleapis.com|secretmanager.googleapis.com\",response_code=\"429\"}[10m])) > 10"
      todo  = "Firestore or Secret Manager refuse requests because of a rate quota (Secret Manager: 600 writes a minute). Calls are repeated, so the API gets slower. Look for an organization that changes many agents, and ask for a higher quota."
    }
  }

  silent_alerts = {
    for name, window in local.silence_windows : "silent ${name}" => {
      title = "${name} does not run", severity = "ERROR", for = window.for
      query = join(" and ", concat(
        ["(sum(increase(${local.ticks[name]}[${window.back}])) or vector(0)) < 0.5"],
        contains(local.daily, name) ? [local.ticks_of_two_days] : [],
      ))
      todo = "No tick was answered in ${window.back}. Check that the Cloud Scheduler job ${local.prefix}-${local.own_service[name]} is enabled, then read the worker's log."
    }
  }
}

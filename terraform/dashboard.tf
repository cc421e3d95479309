# The dashboard: availability, latency, progress of work, and cost.

locals {
  on_run  = "monitored_resource=\"cloud_run_revision\",service_name=~\"${local.prefix}-.*\""
  on_push = "monitored_resource=\"pubsub_subscription\",subscription_id=~\"${local.prefix}-.*\""

  on_records = "monitored_resource=\"firestore.googleapis.com/Database\""

  charts = [
    {
      title = "Share of requests from outside that succeed, by host"
      query = "avg by (host) (avg_over_time(monitoring_googleapis_com:uptime_check_check_passed{monitored_resource=\"uptime_url\",host=~\"${local.checks}\"}[5m]))"
    },
    {
      title = "Seconds until a new agent runs, median and 90th percentile"
      query = join(" or ", [
        for quantile in [0.5, 0.9] :
        "label_replace(histogram_quantile(${quantile}, sum by (le) (increase(${local.starts}_bucket{${local.on_functions}}[1h]))), \"quantile\", \"${quantile}\", \"\", \"\")"
      ])
    },
    { title = "Pods without a node", query = "count by (cluster, namespace) (kube_pod_status_unschedulable{${local.on_cluster},namespace=~\"agent-.*\"} == 1)" },
    { title = "Most used quotas, share", query = "topk(5, ${local.quota_use})" },
    { title = "Requests per second, by service and class", query = "sum by (service_name, response_code_class) (rate(run_googleapis_com:request_count{${local.on_run}}[5m]))" },
    { title = "Logged calls per second, by function", query = "sum by (function) (rate(${local.calls}{${local.on_functions}}[5m]))" },
    { title = "Failed calls per second, by function and status", query = "sum by (function, status) (rate(${local.calls}{${local.on_functions},status=~\"5..\"}[5m]))" },
    {
      title = "Request latency, 95th percentile, ms"
      query = "histogram_quantile(0.95, sum by (le, service_name) (rate(run_googleapis_com:request_latencies_bucket{${local.on_run}}[5m])))"
    },
    { title = "Instances", query = "sum by (service_name) (run_googleapis_com:container_instance_count{${local.on_run}})" },
    {
      title = "Startup latency, 95th percentile, ms"
      query = "histogram_quantile(0.95, sum by (le, service_name) (rate(run_googleapis_com:container_startup_latencies_bucket{${local.on_run}}[1h])))"
    },
    { title = "Waiting messages", query = "sum by (subscription_id) (pubsub_googleapis_com:subscription_num_undelivered_messages{${local.on_push}})" },
    { title = "Age of the oldest message, s", query = "max by (subscription_id) (pubsub_googleapis_com:subscription_oldest_unacked_message_age{${local.on_push}})" },
    { title = "Documents read and written per second", query = join(" or ", [
      "label_replace(sum(rate(firestore_googleapis_com:document_read_ops_count{${local.on_records},database_id=\"${local.database}\"}[5m])), \"op\", \"read\", \"\", \"\")",
      "label_replace(sum(rate(firestore_googleapis_com:document_write_ops_count{${local.on_records},database_id=\"${local.database}\"}[5m])), \"op\", \"write\", \"\", \"\")",
    ]) },
    { title = "Events per hour", query = join(" or ", [
      for name in sort(keys(local.events)) : "label_replace(sum(increase(${local.counted[name]}[1h])), \"event\", \"${name}\", \"\", \"\")"
    ]) },
  ]
}

resource "google_monitoring_dashboard" "this" {
  dashboard_json = jsonencode({
    displayName = "${local.prefix}: control plane"
    mosaicLayout = {
      columns = 48
      # The API omits positions that are zero, so omit them here, too.
      tiles = [for i, chart in local.charts : merge(
        { for axis, place in { xPos = (i % 2) * 24, yPos = floor(i / 2) * 16 } : axis => place if place != 0 },
        {
          width = 24, height = 16
          widget = {
            title = chart.title
            xyChart = {
              dataSets = [{ plotType = "LINE", targetAxis = "Y1", timeSeriesQuery = { prometheusQuery = chart.query } }]
            }
          }
        },
      )]
    }
  })
}

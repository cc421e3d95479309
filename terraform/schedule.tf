# Cloud Scheduler jobs that publish the ticks of scheduled workers.

resource "google_cloud_scheduler_job" "tick" {
  for_each = { for name, w in local.workers : name => w if try(w.schedule, "") != "" }

  name        = "${local.prefix}-${local.own_service[each.key]}"
  description = "Ticks for ${each.key}"
  region      = var.region
  schedule    = each.value.schedule
  time_zone   = "Etc/UTC"
  paused      = var.maintenance

  pubsub_target {
    topic_name = google_pubsub_topic.this[each.value.topic].id
    data       = base64encode("{}")
  }
}

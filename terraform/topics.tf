# Pub/Sub topics of nudges and ticks, and the subscriptions that push to workers.

locals {
  # One topic for each that a worker consumes. Messages that were delivered too often go to the topic with the suffix -dead, if a worker
  # consumes that.
  topics        = { for topic in distinct([for w in local.workers : w.topic]) : topic => "${local.prefix}-${topic}" }
  nudge_topic   = local.catalogue.nudge_topic
  webhook_topic = local.catalogue.webhook_topic
  egress_topic  = local.catalogue.egress_topic
  dead_letters  = { for name, w in local.workers : name => "${w.topic}-dead" if contains(keys(local.topics), "${w.topic}-dead") }

  pubsub_agent = "service-${var.project_number}@gcp-sa-pubsub.iam.gserviceaccount.com"

  # Newer ticks replace a tick that is an hour old. Nudges are kept for Pub/Sub's default retention.
  retention = { for name, _ in local.workers : name => contains(keys(local.scheduled), name) ? "3600s" : "604800s" }

  # A push about one agent or webhook ends after ten seconds, or with the attempt that it makes then, which takes 15 at most; the rest of the deadline is for a cold start. A tick may take as long as a push can.
  ack_deadlines = { for name, _ in local.workers : name => contains(keys(local.scheduled), name) ? 600 : 30 }
}

resource "google_pubsub_topic" "this" {
  for_each = local.topics

  name   = each.value
  labels = { environment = local.prefix }
}

resource "google_pubsub_subscription" "worker" {
  for_each = local.workers

  name                       = "${local.prefix}-${local.own_service[each.key]}"
  topic                      = google_pubsub_topic.this[each.value.topic].id
  ack_deadline_seconds       = local.ack_deadlines[each.key]
  message_retention_duration = local.retention[each.key]
  labels                     = { environment = local.prefix }

  expiration_policy {
    ttl = "" # never, however quiet it is
  }

  # Without pushes Pub/Sub keeps the messages and counts no attempts, so maintenance makes no dead letters.
  dynamic "push_config" {
    for_each = var.maintenance ? [] : [local.urls[local.service_of[each.key]]]
    content {
      push_endpoint = "${push_config.value}${each.value.path}"

      oidc_token {
        service_account_email = google_service_account.push.email
        audience              = push_config.value
      }
    }
  }

  retry_policy {
    minimum_backoff = "10s"
    maximum_backoff = "600s"
  }

  dynamic "dead_letter_policy" {
    for_each = contains(keys(local.dead_letters), each.key) ? [local.dead_letters[each.key]] : []
    content {
      dead_letter_topic     = google_pubsub_topic.this[dead_letter_policy.value].id
      max_delivery_attempts = 20
    }
  }

  depends_on = [
    google_cloud_run_v2_service_iam_member.push,
    google_service_account_iam_member.push_signer,
  ]
}

# Pub/Sub's service agent moves dead letters: it publishes to the dead-letter topic and acknowledges on the source subscription.
resource "google_pubsub_topic_iam_member" "dead_letter" {
  for_each = toset(values(local.dead_letters))

  project = var.project_id
  topic   = google_pubsub_topic.this[each.value].name
  role    = "roles/pubsub.publisher"
  member  = "serviceAccount:${local.pubsub_agent}"
}

resource "google_pubsub_subscription_iam_member" "dead_letter" {
  for_each = local.dead_letters

  project      = var.project_id
  subscription = google_pubsub_subscription.worker[each.key].name
  role         = "roles/pubsub.subscriber"
  member       = "serviceAccount:${local.pubsub_agent}"
}

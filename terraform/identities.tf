# Service accounts of the services, and the account that signs pushes to workers.

locals {
  # An account ID has at most 30 characters. A longer name is cut and made unique by a hash.
  account_ids = {
    for service, name in local.names :
    service => length(name) <= 30 ? name : "${substr(name, 0, 23)}-${substr(sha1(name), 0, 6)}"
  }

  push_account_id = "${local.prefix}-push"
  push_account    = "${local.push_account_id}@${var.project_id}.iam.gserviceaccount.com"
}

resource "google_service_account" "service" {
  for_each = local.services

  account_id   = local.account_ids[each.key]
  display_name = "Control plane: ${local.names[each.key]}"
  description  = "Runs ${join(", ", slice(each.value.members, 0, min(3, length(each.value.members))))}${length(each.value.members) > 3 ? " and more" : ""}."
}

resource "google_service_account" "push" {
  account_id   = local.push_account_id
  display_name = "Control plane: pushes to workers"
  description  = "Pub/Sub signs its pushes as this account; workers accept no other."
}

# Only the push account may call a worker. Cloud Run checks it before a request reaches the process, and the process checks the token again.
resource "google_cloud_run_v2_service_iam_member" "push" {
  for_each = { for service, s in local.services : service => s if !s.public }

  project  = var.project_id
  location = var.region
  name     = google_cloud_run_v2_service.this[each.key].name
  role     = "roles/run.invoker"
  member   = google_service_account.push.member
}

# Pub/Sub's service agent, which Google creates with the API, signs tokens as the account above.
resource "google_service_account_iam_member" "push_signer" {
  service_account_id = google_service_account.push.name
  role               = "roles/iam.serviceAccountTokenCreator"
  member             = "serviceAccount:${local.pubsub_agent}"
}

# Secrets of the control plane. Functions create agents' secrets at run time.

locals {
  secrets = {
    pepper   = "${local.prefix}-api-key-pepper"
    edge     = "${local.prefix}-edge-secrets"
    webhooks = "${local.prefix}-webhook-signing-key"
  }

  # Secrets that an operator may provide, by environment variable, with the need of the functions that read them. They are created without
  # a value; provided_secrets names those that have one.
  optional_secrets = {
    HANDOFF_SIGNING_KEY   = "handoff_sign"
    STRIPE_API_KEY        = "payments"
    STRIPE_WEBHOOK_SECRET = "payments"
  }
  optional_secret_ids = { for name, need in local.optional_secrets : name => "${local.prefix}-${lower(replace(name, "_", "-"))}" }

  # Dashboard links are signed once their public key is published.
  provided_secrets = setunion(var.provided_secrets, var.handoff_public_keys == "" ? [] : ["HANDOFF_SIGNING_KEY"])

  # A secret that Terraform generates is read at its version; one that was added by hand is read at latest when an instance starts.
  secret_versions = merge(
    { for id, v in google_secret_manager_secret_version.generated : id => v.version },
    { (local.secrets.edge) = google_secret_manager_secret_version.edge.version },
    { for id in values(local.optional_secret_ids) : id => "latest" },
  )

  # The services that read each secret.
  secret_readers = merge([
    for service, variables in local.secret_environments : {
      for id in distinct(values(variables)) : "${service} ${id}" => { service = service, secret = id }
    }
  ]...)
}

resource "google_secret_manager_secret" "this" {
  for_each = toset(concat(values(local.secrets), values(local.optional_secret_ids)))

  secret_id           = each.value
  labels              = { environment = local.prefix }
  deletion_protection = var.deletion_protection

  replication {
    dynamic "auto" {
      for_each = length(var.secret_regions) == 0 ? [1] : []
      content {}
    }
    dynamic "user_managed" {
      for_each = length(var.secret_regions) == 0 ? [] : [1]
      content {
        dynamic "replicas" {
          for_each = var.secret_regions
          content {
            location = replicas.value
          }
        }
      }
    }
  }
}

# Terraform generates the pepper and the key of webhooks' secrets and never stores them: a write-only argument appears in no plan and no state,
# and it is written only when its version changes. A new pepper invalidates every API key, and a new key every webhook's signing secret.
resource "google_secret_manager_secret_version" "generated" {
  for_each = toset([local.secrets.pepper, local.secrets.webhooks])

  secret                 = google_secret_manager_secret.this[each.value].id
  secret_data_wo         = base64sha256("${uuid()}${uuid()}") # 244 random bits, as 32 bytes in base64
  secret_data_wo_version = "1"
  deletion_policy        = var.deletion_protection ? "ABANDON" : "DELETE"
}

resource "google_secret_manager_secret_iam_member" "service" {
  for_each = local.secret_readers

  project   = var.project_id
  secret_id = google_secret_manager_secret.this[each.value.secret].secret_id
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.service[each.value.service].member
}

# Secrets of the control plane. Functions create agents' secrets at run time.

locals {
  secrets = {
    pepper   = "${local.prefix}-api-key-pepper"
    edge     = "${local.prefix}-edge-secrets"
    webhooks = "${local.prefix}-webhook-signing-key"
    gate     = "${local.prefix}-gate-ca"
  }

  # The keys that Terraform generates, each with its secret and its environment variable.
  generated_keys = {
    pepper   = { secret = local.secrets.pepper, variable = "API_KEY_PEPPER" }
    webhooks = { secret = local.secrets.webhooks, variable = "WEBHOOK_SIGNING_KEY" }
  }

  # Their versions. The first one has the name of its secret, as in the state of earlier releases, and the others a number behind it. A version
  # that is no longer accepted stays, so that each step of a change can be taken back.
  generated_versions = merge([
    for key, k in local.generated_keys : {
      for number in range(1, var.key_versions[key] + (contains(var.next_keys, key) ? 2 : 1)) :
      (number == 1 ? k.secret : "${k.secret} ${number}") => { secret = k.secret, number = number }
    }
  ]...)

  # The variables of each key, with the version that they have: the present one and, during a change, the one after or before it.
  key_environments = {
    for key, k in local.generated_keys : key => {
      for name, number in {
        (k.variable)             = var.key_versions[key]
        "${k.variable}_NEXT"     = contains(var.next_keys, key) ? var.key_versions[key] + 1 : 0
        "${k.variable}_PREVIOUS" = contains(var.previous_keys, key) ? var.key_versions[key] - 1 : 0
      } : name => number == 1 ? k.secret : "${k.secret} ${number}" if number > 0
    }
  }

  # Secrets that an operator may provide, by environment variable, with the need of the functions that read them. They are created without
  # a value; provided_secrets names those that have one.
  optional_secrets = {
    HANDOFF_SIGNING_KEY   = "handoff_sign"
    STRIPE_API_KEY        = "payments"
    STRIPE_WEBHOOK_SECRET = "payments"
  }
  optional_secret_ids = { for name, need in local.optional_secrets : name => "${local.prefix}-${lower(replace(name, "_", "-"))}" }

  # A secret that Terraform generates is read at its version; one that was added by hand is read at latest when an instance starts.
  secret_versions = merge(
    { for name, v in google_secret_manager_secret_version.generated : name => v.version },
    { (local.secrets.edge) = google_secret_manager_secret_version.edge_secrets[tostring(var.edge_secret_version)].version },
    { for id in values(local.optional_secret_ids) : id => "latest" },
  )

  # The services that read each secret.
  secret_readers = merge([
    for service, variables in local.secret_environments : {
      for id in distinct([for version in values(variables) : split(" ", version)[0]]) :
      "${service} ${id}" => { service = service, secret = id }
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
# and it is written only when the version is made. Versions end with their secret, and never before: a service that still reads one would not
# start. An operator may disable those that are not accepted any more.
resource "google_secret_manager_secret_version" "generated" {
  for_each = local.generated_versions

  secret                 = google_secret_manager_secret.this[each.value.secret].id
  secret_data_wo         = base64sha256("${uuid()}${uuid()}") # 244 random bits, as 32 bytes in base64
  secret_data_wo_version = tostring(each.value.number)
  deletion_policy        = "ABANDON"

  lifecycle {
    ignore_changes = [enabled]
  }
}

# What the CAs of agents with brokered secrets follow from. It is never changed: each pod trusts the CA that it started with.
resource "google_secret_manager_secret_version" "gate" {
  secret                 = google_secret_manager_secret.this[local.secrets.gate].id
  secret_data_wo         = base64sha256("${uuid()}${uuid()}") # 244 random bits, as 32 bytes in base64
  secret_data_wo_version = "1"
  deletion_policy        = "ABANDON"
}

resource "google_secret_manager_secret_iam_member" "service" {
  for_each = local.secret_readers

  project   = var.project_id
  secret_id = google_secret_manager_secret.this[each.value.secret].secret_id
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.service[each.value.service].member
}

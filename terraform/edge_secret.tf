# The secret that the load balancer sends with every request, by which functions know that a request came through it. A pod of an agent can
# reach the services, too, but only the load balancer may report the address of a client.
#
# Whoever has the secret can choose the address that their own requests are counted and recorded under, and nothing else: every request is
# authenticated in any case. A backend service has no write-only argument for headers, so the secret is in the state.

# The secrets up to the one after the present one, by number. Terraform generates each once and keeps it.
resource "terraform_data" "edge_secret" {
  for_each = toset([for number in range(1, var.edge_secret_version + 2) : tostring(number)])

  input = sha256("${uuid()}${uuid()}") # 244 random bits

  lifecycle {
    ignore_changes = [input]
  }
}

locals {
  # What services accept at each number: the present secret, the next one and the previous one. The load balancer sends the present one
  # as soon as Terraform has applied it, and the revisions of the former release then have the traffic until this release is tested, and
  # again after a roll-back. To them it is the next one. Functions that forward calls vouch with the first one.
  edge_secrets = {
    for present in range(1, var.edge_secret_version + 1) : tostring(present) => [
      for number in [present, present + 1, present - 1] : terraform_data.edge_secret[tostring(number)].output if number >= 1
    ]
  }
}

# A version ends with its secret, and never before: instances of a former revision would not start.
resource "google_secret_manager_secret_version" "edge_secrets" {
  for_each = local.edge_secrets

  secret                 = google_secret_manager_secret.this[local.secrets.edge].id
  secret_data_wo         = join(",", each.value)
  secret_data_wo_version = each.key
  deletion_policy        = "ABANDON"
}

# Former releases destroyed the version that they replaced. The revisions that serve when this release is deployed read it.
removed {
  from = google_secret_manager_secret_version.edge

  lifecycle {
    destroy = false
  }
}

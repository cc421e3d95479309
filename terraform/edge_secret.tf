# The secret that the load balancer sends with every request, by which functions know that a request came through it. A pod of an agent can
# reach the services, too, but only the load balancer may report the address of a client.
#
# Whoever has the secret can choose the address that their own requests are counted and recorded under, and nothing else: every request is
# authenticated in any case. A backend service has no write-only argument for headers, so the secret is in the state.

# The present secret and the previous one, by number. Terraform generates each once and keeps it.
resource "terraform_data" "edge_secret" {
  for_each = toset([
    for number in [var.edge_secret_version, var.edge_secret_version - 1] : tostring(number) if number >= 1
  ])

  input = sha256("${uuid()}${uuid()}") # 244 random bits

  lifecycle {
    ignore_changes = [input]
  }
}

locals {
  # The load balancer sends the first one.
  edge_secrets = [
    for number in [var.edge_secret_version, var.edge_secret_version - 1] :
    terraform_data.edge_secret[tostring(number)].output if number >= 1
  ]
}

# Services accept a new secret before the load balancer sends it, because the load balancer's backends depend on them. The version that they
# no longer read is destroyed last.
resource "google_secret_manager_secret_version" "edge" {
  secret                 = google_secret_manager_secret.this[local.secrets.edge].id
  secret_data_wo         = join(",", local.edge_secrets)
  secret_data_wo_version = substr(sha256(join(",", local.edge_secrets)), 0, 8)

  lifecycle {
    create_before_destroy = true
  }
}

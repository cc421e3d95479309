# The way to agents' hostnames: the DNS zone of their domain and, for the Gateway of each cell, an IP address, a wildcard record and a
# wildcard certificate. The cell is a label of the hostname, so nothing here changes with an agent.

locals {
  # The Gateway of every cell; see cell/gateway.yaml.
  gateway = { namespace = "agent-gateway", name = "agents" }

  cell_domains = { for cell, _ in var.cells : cell => "${cell}.${var.agent_domain}" }
}

resource "google_dns_managed_zone" "agents" {
  name        = "${local.prefix}-agents"
  dns_name    = "${var.agent_domain}."
  description = "Hostnames of agents"

  dnssec_config {
    state = "on"
  }
}

resource "google_certificate_manager_dns_authorization" "cell" {
  for_each = local.cell_domains

  project = local.cells_project
  name    = "${local.prefix}-${each.key}"
  domain  = each.value
}

resource "google_dns_record_set" "authorization" {
  for_each = local.cell_domains

  managed_zone = google_dns_managed_zone.agents.name
  name         = "_acme-challenge.${each.value}."
  type         = "CNAME"
  ttl          = 300
  rrdatas      = google_certificate_manager_dns_authorization.cell[each.key].dns_resource_record[*].data
}

resource "google_certificate_manager_certificate" "cell" {
  for_each = local.cell_domains

  project = local.cells_project
  name    = "${local.prefix}-${each.key}"

  managed {
    domains            = ["*.${each.value}"]
    dns_authorizations = [google_certificate_manager_dns_authorization.cell[each.key].id]
  }
}

resource "google_certificate_manager_certificate_map" "agents" {
  project = local.cells_project
  name    = "${local.prefix}-agents"
}

resource "google_certificate_manager_certificate_map_entry" "cell" {
  for_each = local.cell_domains

  project      = local.cells_project
  name         = "${local.prefix}-${each.key}"
  map          = google_certificate_manager_certificate_map.agents.name
  hostname     = "*.${each.value}"
  certificates = [google_certificate_manager_certificate.cell[each.key].id]
}

resource "google_compute_global_address" "cell" {
  for_each = var.cells

  project = local.cells_project
  name    = "${local.prefix}-${each.key}"
}

resource "google_dns_record_set" "cell" {
  for_each = local.cell_domains

  managed_zone = google_dns_managed_zone.agents.name
  name         = "*.${each.value}."
  type         = "A"
  ttl          = 300
  rrdatas      = [google_compute_global_address.cell[each.key].address]
}

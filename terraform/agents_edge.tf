# The way to agents' hostnames: the DNS zone of their domain, one wildcard certificate, and an IP address for the Gateway of each cell.

locals {
  # The Gateway to which agents' HTTPRoutes attach. cell/gateway.yaml defines it in every cell.
  gateway = { namespace = "agent-gateway", name = "agents" }

  # Every name below the domain resolves to the first cell unless another cell publishes a record for it; see cell/dns.yaml.
  first_cell = [for name, c in var.cells : name if c.number == min([for c in var.cells : c.number]...)][0]
}

resource "google_dns_managed_zone" "agents" {
  name        = "${local.prefix}-agents"
  dns_name    = "${var.agent_domain}."
  description = "Hostnames of agents"

  dnssec_config {
    state = "on"
  }
}

resource "google_certificate_manager_dns_authorization" "agents" {
  name   = "${local.prefix}-agents"
  domain = var.agent_domain
}

resource "google_dns_record_set" "authorization" {
  managed_zone = google_dns_managed_zone.agents.name
  name         = "_acme-challenge.${var.agent_domain}."
  type         = "CNAME"
  ttl          = 300
  rrdatas      = google_certificate_manager_dns_authorization.agents.dns_resource_record[*].data
}

resource "google_certificate_manager_certificate" "agents" {
  name = "${local.prefix}-agents"

  managed {
    domains            = ["*.${var.agent_domain}"]
    dns_authorizations = [google_certificate_manager_dns_authorization.agents.id]
  }
}

resource "google_certificate_manager_certificate_map" "agents" {
  name = "${local.prefix}-agents"
}

resource "google_certificate_manager_certificate_map_entry" "agents" {
  name         = "${local.prefix}-agents"
  map          = google_certificate_manager_certificate_map.agents.name
  hostname     = "*.${var.agent_domain}"
  certificates = [google_certificate_manager_certificate.agents.id]
}

resource "google_compute_global_address" "cell" {
  for_each = var.cells

  name = "${local.prefix}-${each.key}"
}

resource "google_dns_record_set" "agents" {
  managed_zone = google_dns_managed_zone.agents.name
  name         = "*.${var.agent_domain}."
  type         = "A"
  ttl          = 300
  rrdatas      = [google_compute_global_address.cell[local.first_cell].address]
}

# The global load balancer in front of the routes' services. It exists only with a domain; without one, the service of all routes is the
# API.

locals {
  edge = var.domain == "" ? {} : { for service, s in local.services : service => s if s.public }
  door = var.domain == "" ? [] : ["api"]
}

resource "google_compute_global_address" "api" {
  for_each = toset(local.door)

  name = "${local.prefix}-api"
}

# The certificate of the domain. The DNS authorization lets Google issue it before the domain points here, so the domain can move without an
# interruption. The names contain the domain because it cannot change in any of them.
locals {
  certificates = { for door in local.door : door => "${local.prefix}-api-${substr(sha1(var.domain), 0, 8)}" }

  # What the zone of the domain must have. The authorization comes first.
  api_records = flatten([
    for door in local.door : [
      [for r in google_certificate_manager_dns_authorization.api[door].dns_resource_record : "${r.name} ${r.type} ${r.data}"],
      "${var.domain}. A ${google_compute_global_address.api[door].address}",
    ]
  ])
}

resource "google_certificate_manager_dns_authorization" "api" {
  for_each = local.certificates

  name   = each.value
  domain = var.domain

  lifecycle {
    create_before_destroy = true
  }
}

resource "google_certificate_manager_certificate" "api" {
  for_each = local.certificates

  name = each.value

  managed {
    domains            = [var.domain]
    dns_authorizations = [google_certificate_manager_dns_authorization.api[each.key].id]
  }

  lifecycle {
    create_before_destroy = true
  }
}

resource "google_certificate_manager_certificate_map" "api" {
  for_each = toset(local.door)

  name = "${local.prefix}-api"
}

resource "google_certificate_manager_certificate_map_entry" "api" {
  for_each = local.certificates

  name         = each.value
  map          = google_certificate_manager_certificate_map.api[each.key].name
  hostname     = var.domain
  certificates = [google_certificate_manager_certificate.api[each.key].id]
}

# TLS 1.2 or newer, for the API and for agents.
resource "google_compute_ssl_policy" "edge" {
  name            = "${local.prefix}-edge"
  profile         = "MODERN"
  min_tls_version = "TLS_1_2"
}

# A Gateway uses the policy of this name in the project of its cluster.
resource "google_compute_ssl_policy" "cells" {
  for_each = toset(local.separate)

  project         = local.cells_project
  name            = google_compute_ssl_policy.edge.name
  profile         = google_compute_ssl_policy.edge.profile
  min_tls_version = google_compute_ssl_policy.edge.min_tls_version
}

resource "google_compute_region_network_endpoint_group" "service" {
  for_each = local.edge

  name                  = local.names[each.key]
  region                = var.region
  network_endpoint_type = "SERVERLESS"

  cloud_run {
    service = google_cloud_run_v2_service.this[each.key].name
  }
}

# The newest revision of the service of all routes, for the test of a deployment.
resource "google_compute_region_network_endpoint_group" "candidate" {
  for_each = toset(local.door)

  name                  = "${local.prefix}-${local.candidate}"
  region                = var.region
  network_endpoint_type = "SERVERLESS"

  cloud_run {
    service = google_cloud_run_v2_service.this[local.all_routes].name
    tag     = local.candidate
  }
}

locals {
  backends = merge(
    { for service, _ in local.edge : service => { name = local.names[service], group = google_compute_region_network_endpoint_group.service[service].id } },
    { for door in local.door : local.candidate => { name = "${local.prefix}-${local.candidate}", group = google_compute_region_network_endpoint_group.candidate[door].id } },
  )
}

resource "google_compute_backend_service" "service" {
  for_each = local.backends

  name                  = each.value.name
  load_balancing_scheme = "EXTERNAL_MANAGED"
  protocol              = "HTTPS"
  security_policy       = try(google_compute_security_policy.edge["api"].id, null)

  # The address of the client, which functions believe because of the secret; see shared/clientip.
  custom_request_headers = [
    "X-Edge-Client-Address:{client_ip_address}",
    "X-Edge-Secret:${sensitive(local.edge_secrets[tostring(var.edge_secret_version)][0])}",
  ]

  backend {
    group = each.value.group
  }

  log_config {
    enable      = true
    sample_rate = 0.1
  }

  # The URL map stops using a backend service before it is deleted, as after another topology. Google deletes none that is in use, and
  # Terraform would change the URL map only afterwards.
  lifecycle {
    create_before_destroy = true
  }
}

resource "google_compute_target_https_proxy" "api" {
  for_each = toset(local.door)

  name            = "${local.prefix}-api"
  url_map         = google_compute_url_map.api[each.key].id
  certificate_map = "//certificatemanager.googleapis.com/${google_certificate_manager_certificate_map.api[each.key].id}"
  ssl_policy      = google_compute_ssl_policy.edge.id
}

# There is no HTTP listener: a redirect would come after the client has sent its token in plain text.
resource "google_compute_global_forwarding_rule" "api" {
  for_each = toset(local.door)

  name                  = "${local.prefix}-api"
  load_balancing_scheme = "EXTERNAL_MANAGED"
  ip_address            = google_compute_global_address.api[each.key].id
  port_range            = "443"
  target                = google_compute_target_https_proxy.api[each.key].id
}

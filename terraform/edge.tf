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

# The name contains the domain: the domains of a certificate cannot change, and the proxy needs a certificate at every moment.
resource "google_compute_managed_ssl_certificate" "api" {
  for_each = toset(local.door)

  name = "${local.prefix}-api-${substr(sha1(var.domain), 0, 8)}"

  managed {
    domains = [var.domain]
  }

  lifecycle {
    create_before_destroy = true
  }
}

resource "google_compute_ssl_policy" "api" {
  for_each = toset(local.door)

  name            = "${local.prefix}-api"
  profile         = "MODERN"
  min_tls_version = "TLS_1_2"
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

resource "google_compute_backend_service" "service" {
  for_each = local.edge

  name                  = local.names[each.key]
  load_balancing_scheme = "EXTERNAL_MANAGED"
  protocol              = "HTTPS"
  security_policy       = google_compute_security_policy.api["api"].id

  backend {
    group = google_compute_region_network_endpoint_group.service[each.key].id
  }

  log_config {
    enable      = true
    sample_rate = 0.1
  }
}

resource "google_compute_target_https_proxy" "api" {
  for_each = toset(local.door)

  name             = "${local.prefix}-api"
  url_map          = google_compute_url_map.api[each.key].id
  ssl_certificates = [google_compute_managed_ssl_certificate.api[each.key].id]
  ssl_policy       = google_compute_ssl_policy.api[each.key].id
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

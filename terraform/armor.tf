# Rate limits at the load balancer. They are the global ones: an instance enforces only its share of the documented limits and does not
# know what other instances receive.

resource "google_compute_security_policy" "api" {
  for_each = toset(local.door)

  name        = "${local.prefix}-api"
  description = "Limits by token, and by IP address for requests without a token."

  # Health, API description and webhooks need no token, so they are limited by IP address.
  rule {
    action      = "throttle"
    priority    = 1000
    description = "Requests without a token, by IP address"

    match {
      expr {
        expression = "!has(request.headers['authorization'])"
      }
    }

    rate_limit_options {
      conform_action = "allow"
      exceed_action  = "deny(429)"
      enforce_on_key = "IP"

      rate_limit_threshold {
        count        = 300 * var.rate_limit_factor
        interval_sec = 60
      }
    }
  }

  # Reads are limited to 10 a second, and polling one agent to another 5 a second. This leaves room for several agents.
  rule {
    action      = "throttle"
    priority    = 2000
    description = "Requests by token"

    match {
      versioned_expr = "SRC_IPS_V1"

      config {
        src_ip_ranges = ["*"]
      }
    }

    rate_limit_options {
      conform_action      = "allow"
      exceed_action       = "deny(429)"
      enforce_on_key      = "HTTP_HEADER"
      enforce_on_key_name = "Authorization"

      rate_limit_threshold {
        count        = 1800 * var.rate_limit_factor
        interval_sec = 60
      }
    }
  }

  rule {
    action      = "allow"
    priority    = 2147483647
    description = "Everything that the rules above allow"

    match {
      versioned_expr = "SRC_IPS_V1"

      config {
        src_ip_ranges = ["*"]
      }
    }
  }
}

# Limits at the edge. They are the global ones: an instance enforces only its own share of the documented limits, and knows nothing of
# what the others see.

resource "google_compute_security_policy" "api" {
  for_each = toset(local.door)

  name        = "${local.prefix}-api"
  description = "Limits by caller, and by address for those who name none."

  # Nobody is asked for a token by these: health, description, the provider's webhooks. So an address has its own limit.
  rule {
    action      = "throttle"
    priority    = 1000
    description = "Requests without a token, by address"

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

  # Reads are limited to 10 a second, and polling one agent to 5 a second beside: this leaves room for several agents.
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
    description = "What the rules above let through"

    match {
      versioned_expr = "SRC_IPS_V1"

      config {
        src_ip_ranges = ["*"]
      }
    }
  }
}

# Protection of the load balancers from floods. These are not the documented rate limits, which are counted where the caller is known: the
# organization's record counts creations of agents, and every instance counts the other calls that it serves.

locals {
  # Requests that one address may send in a minute. With the documented limits, a key of the largest plan may send 30,660: 600 reads, 60
  # changes, and five reads a second of each of its 100 agents. Several such clients may share an address. Cloud Armor takes a million at most.
  flood = min(60000 * var.rate_limit_factor, 1000000)

  protected = coalesce(var.cloud_armor, var.domain != "") ? concat(["agents"], local.door) : []
}

# The key is the address alone. A header is no key for requests whose token is not verified yet: whoever makes up a new token for each
# request would never be refused. And Cloud Armor reads 128 bytes of a header, which are the same in all session tokens of an issuer.
resource "google_compute_security_policy" "edge" {
  for_each = toset(local.protected)

  project     = each.key == "agents" ? local.cells_project : var.project_id
  name        = "${local.prefix}-${each.key}"
  description = "Refuses an address that floods a backend service. Cloud Armor counts each backend service separately."

  rule {
    action      = "throttle"
    priority    = 1000
    description = "Requests from one address to one backend service"

    match {
      versioned_expr = "SRC_IPS_V1"

      config {
        src_ip_ranges = ["*"]
      }
    }

    rate_limit_options {
      conform_action = "allow"
      exceed_action  = "deny(429)"
      enforce_on_key = "IP"

      rate_limit_threshold {
        count        = local.flood
        interval_sec = 60
      }
    }
  }

  # Every policy must have a default rule.
  rule {
    action      = "allow"
    priority    = 2147483647
    description = "Default"

    match {
      versioned_expr = "SRC_IPS_V1"

      config {
        src_ip_ranges = ["*"]
      }
    }
  }

  # Backend services stop using a policy before it is deleted.
  lifecycle {
    create_before_destroy = true
  }
}

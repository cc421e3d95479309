# Requests from outside: to the API, and to the canary of each cell, which is reached as an agent is. Only they notice a fault of DNS, of a
# certificate or of a load balancer, because then no request arrives.

locals {
  # See cell/canary.yaml. The label of its hostname ends with its ID, the nil UUID in base32.
  canary = {
    namespace = "agent-00000000-0000-0000-0000-000000000000"
    slug      = "canary"
    label     = "canary-aaaaaaaaaaaaaaaaaaaaaaaaaa"
  }

  # What each answers, by the host that is asked.
  uptime_checks = merge(
    {
      api = {
        title = "API", host = var.domain == "" ? trimprefix(local.urls[local.all_routes], "https://") : var.domain, content = "\"ok\""
      }
    },
    {
      for cell, domain in local.cell_domains : "cell-${cell}" => {
        title = "agents of ${cell}", host = "${local.canary.label}.${domain}", content = "ready"
      }
    },
  )
}

resource "google_monitoring_uptime_check_config" "this" {
  for_each = local.uptime_checks

  display_name = "${local.prefix}: ${each.value.title}"
  period       = "60s"
  timeout      = "10s"

  # Three locations are the fewest. A month of one check is 130,000 executions, and the first million of a project is free.
  selected_regions = ["USA_IOWA", "EUROPE", "ASIA_PACIFIC"]

  http_check {
    path           = "/health/ready"
    port           = 443
    request_method = "GET"
    use_ssl        = true
    validate_ssl   = true

    accepted_response_status_codes {
      status_value = 200
    }
  }

  content_matchers {
    content = each.value.content
    matcher = "CONTAINS_STRING"
  }

  monitored_resource {
    type   = "uptime_url"
    labels = { project_id = var.project_id, host = each.value.host }
  }
}

# URL map rules: which service handles which method and path, derived from the list of functions.

locals {
  # The paths that clients may call: the canonical path, and for agents the same path without its prefix, which the service rewrites.
  rules_by_path = merge([
    for name, f in local.routes : {
      for path in concat([f.path], startswith(f.path, "/api/v1/agents") ? [trimprefix(f.path, "/api/v1")] : []) :
      "${replace(path, "/\\{[^}]*\\}/", "~")} ${f.method}" => {
        service = local.service_of[name]
        method  = f.method
        # A last parameter such as {path...} may have slashes.
        template = strcontains(path, "{") ? replace(replace(path, "/\\{([^}.]*)\\}/", "{$1=*}"), "...}", "=**}") : ""
        literal  = strcontains(path, "{") ? "" : path
      }
    }
  ]...)

  # A parameter sorts as "~", after every letter and digit, so that a literal segment is tried before a parameter.
  rules = [for i, key in sort(keys(local.rules_by_path)) : merge(local.rules_by_path[key], { priority = i + 1 })]

  # The default service needs no rules.
  rules_of_others = [for r in local.rules : r if r.service != local.all_routes]
}

resource "google_compute_url_map" "api" {
  for_each = toset(local.door)

  name            = "${local.prefix}-api"
  default_service = google_compute_backend_service.service[local.all_routes].id

  host_rule {
    hosts        = [var.domain]
    path_matcher = "api"
  }

  path_matcher {
    name = "api"
    # The default service has every route, so it answers 404, 405, HEAD and OPTIONS as documented.
    default_service = google_compute_backend_service.service[local.all_routes].id

    # The test of a deployment asks for the newest revision, before it has the traffic. Anyone may: it has the rights that it will have then.
    route_rules {
      priority = 0
      service  = google_compute_backend_service.service[local.candidate].id

      match_rules {
        prefix_match = "/"

        header_matches {
          header_name = "Release-Candidate"
          exact_match = "true"
        }
      }
    }

    dynamic "route_rules" {
      for_each = local.rules_of_others
      iterator = rule
      content {
        priority = rule.value.priority
        service  = google_compute_backend_service.service[rule.value.service].id

        match_rules {
          full_path_match     = rule.value.literal == "" ? null : rule.value.literal
          path_template_match = rule.value.template == "" ? null : rule.value.template

          header_matches {
            header_name = ":method"
            exact_match = rule.value.method
          }
        }
      }
    }
  }
}

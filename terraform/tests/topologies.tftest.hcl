# The three topologies, with and without a domain, planned and applied against a mock of the provider:
#
#   terraform -chdir=terraform init -backend=false && terraform -chdir=terraform test

mock_provider "google" {
  mock_resource "google_certificate_manager_dns_authorization" {
    defaults = {
      dns_resource_record = [{ name = "_acme-challenge.agents.example.com.", type = "CNAME", data = "1.authorize.certificatemanager.goog." }]
    }
  }
}

variables {
  project_id      = "my-project"
  project_number  = "123456789012"
  image           = "us-central1-docker.pkg.dev/my-project/prod/controlplane@sha256:0000000000000000000000000000000000000000000000000000000000000000"
  identity_issuer = "https://issuer.example.com"
  agent_domain    = "agents.example.com"
  agent_image     = "us-central1-docker.pkg.dev/my-project/prod/agent@sha256:1111111111111111111111111111111111111111111111111111111111111111"
}

run "every_function_is_a_service" {
  command = plan

  assert {
    condition     = length(google_cloud_run_v2_service.this) == length(local.functions) + 1
    error_message = "A service for each function, and one of all routes."
  }

  assert {
    condition     = alltrue([for s in google_cloud_run_v2_service.this : s.template[0].containers[0].image == var.image])
    error_message = "One image for all."
  }

  assert {
    condition     = length(google_pubsub_subscription.worker) == length(local.workers)
    error_message = "Every worker is pushed to."
  }

  assert {
    condition     = length(google_compute_url_map.api) == 0 && length(google_compute_security_policy.api) == 0
    error_message = "Nothing stands before the services without a domain."
  }

  assert {
    condition     = output.base_url == "https://prod-routes-123456789012.us-central1.run.app"
    error_message = "Without a domain, the service of all routes is the API."
  }

  assert {
    condition = alltrue([
      for name, s in google_cloud_run_v2_service.this :
      s.ingress == (name == "routes" ? "INGRESS_TRAFFIC_ALL" : local.services[name].public ? "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER" : "INGRESS_TRAFFIC_INTERNAL_ONLY")
    ])
    error_message = "Only the service of all routes is reached from outside."
  }

  assert {
    condition     = alltrue([for name, s in google_cloud_run_v2_service.this : s.invoker_iam_disabled == local.services[name].public])
    error_message = "Who calls a worker is asked by Cloud Run, too."
  }
}

run "every_function_behind_a_domain" {
  command = plan

  variables {
    domain = "api.example.com"
  }

  assert {
    condition     = length(google_compute_backend_service.service) == length(local.routes) + 1
    error_message = "A backend for each route, and one of all routes."
  }

  assert {
    condition = (
      sort([for r in google_compute_url_map.api["api"].path_matcher[0].route_rules : r.priority])
      == sort([for i, _ in local.rules : i + 1])
    )
    error_message = "A rule for each path, in an order."
  }

  assert {
    condition     = alltrue([for s in google_cloud_run_v2_service.this : s.ingress != "INGRESS_TRAFFIC_ALL"])
    error_message = "Behind a load balancer nothing else is a way in."
  }

  assert {
    condition     = output.base_url == "https://api.example.com"
    error_message = "The domain is the API."
  }
}

run "a_service_a_role" {
  command = plan

  variables {
    topology = "group"
  }

  assert {
    condition     = toset(keys(google_cloud_run_v2_service.this)) == toset(["accounts", "api", "routes", "worker"])
    error_message = "A service for each role, and one of all routes."
  }
}

run "a_service_a_role_behind_a_domain" {
  command = plan

  variables {
    topology = "group"
    domain   = "api.example.com"
  }

  assert {
    condition     = toset(keys(google_compute_backend_service.service)) == toset(["accounts", "api", "routes"])
    error_message = "Workers are behind no load balancer."
  }
}

run "a_service_of_routes_and_one_of_workers" {
  command = plan

  variables {
    topology = "single"
  }

  assert {
    condition     = toset(keys(google_cloud_run_v2_service.this)) == toset(["routes", "worker"])
    error_message = "One service of routes and one of workers."
  }

  assert {
    condition = alltrue([
      for name, s in google_pubsub_subscription.worker : s.push_config[0].push_endpoint
      == "https://prod-worker-123456789012.us-central1.run.app/workers/${name}"
    ])
    error_message = "Every worker has its path in the one service."
  }
}

run "a_service_of_routes_behind_a_domain" {
  command = plan

  variables {
    topology = "single"
    domain   = "api.example.com"
  }

  assert {
    condition     = length(google_compute_url_map.api["api"].path_matcher[0].route_rules) == 0
    error_message = "One service needs no rules."
  }
}

run "it_can_be_applied" {
  variables {
    domain       = "api.example.com"
    alert_emails = ["operator@example.com"]
  }

  assert {
    condition     = strcontains(output.cell_objects["us-central1-1"], "kind: ClusterRole")
    error_message = "What is applied to the cells comes out."
  }
}

# Plans and applies the three topologies, with and without a domain, against a mock provider:
#
#   terraform -chdir=terraform init -backend=false && terraform -chdir=terraform test

mock_provider "google" {
  mock_resource "google_certificate_manager_dns_authorization" {
    defaults = {
      dns_resource_record = [{ name = "_acme-challenge.agents.example.net.", type = "CNAME", data = "1.authorize.certificatemanager.goog." }]
    }
  }
}

variables {
  project_id      = "my-project"
  project_number  = "123456789012"
  image           = "us-central1-docker.pkg.dev/my-project/prod/controlplane@sha256:0000000000000000000000000000000000000000000000000000000000000000"
  identity_issuer = "https://issuer.example.com"
  agent_domain    = "agents.example.net"
  agent_image     = "us-central1-docker.pkg.dev/my-project/prod/agent@sha256:1111111111111111111111111111111111111111111111111111111111111111"
}

run "every_function_is_a_service" {
  command = plan

  variables {
    topology = "route"
  }

  assert {
    condition     = length(google_cloud_run_v2_service.this) == length(local.functions) + 1
    error_message = "want one service per function and one of all routes"
  }

  assert {
    condition     = alltrue([for s in google_cloud_run_v2_service.this : s.template[0].containers[0].image == var.image])
    error_message = "want the same image in all services"
  }

  assert {
    condition     = length(google_pubsub_subscription.worker) == length(local.workers)
    error_message = "want a push subscription for every worker"
  }

  assert {
    condition     = length(google_compute_url_map.api) == 0 && length(google_certificate_manager_certificate.api) == 0
    error_message = "want no load balancer without a domain"
  }

  assert {
    condition     = output.base_url == "https://prod-routes-123456789012.us-central1.run.app"
    error_message = "want base_url to be the service of all routes"
  }

  assert {
    condition = alltrue([
      for name, s in google_cloud_run_v2_service.this :
      s.ingress == (name == "routes" ? "INGRESS_TRAFFIC_ALL" : local.services[name].public ? "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER" : "INGRESS_TRAFFIC_INTERNAL_ONLY")
    ])
    error_message = "want only the service of all routes to be public"
  }

  assert {
    condition     = alltrue([for name, s in google_cloud_run_v2_service.this : s.invoker_iam_disabled == local.services[name].public])
    error_message = "want Cloud Run to check the caller of a worker"
  }
}

run "every_function_behind_a_domain" {
  command = plan

  variables {
    topology = "route"
    domain   = "api.example.com"
  }

  assert {
    condition     = length(google_compute_backend_service.service) == length(local.routes) + 2
    error_message = "want one backend per route, one of all routes and one of the newest revision"
  }

  assert {
    condition = (
      sort([for r in google_compute_url_map.api["api"].path_matcher[0].route_rules : r.priority])
      == sort(concat([0], [for i, _ in local.rules : i + 1]))
    )
    error_message = "want one rule for the newest revision and one per path, with distinct priorities"
  }

  assert {
    condition     = alltrue([for s in google_cloud_run_v2_service.this : s.ingress != "INGRESS_TRAFFIC_ALL"])
    error_message = "want every service to be reachable only through the load balancer"
  }

  assert {
    condition     = output.base_url == "https://api.example.com"
    error_message = "want base_url to be the domain"
  }
}

run "a_service_a_role" {
  command = plan

  assert {
    condition     = toset(keys(google_cloud_run_v2_service.this)) == toset(["accounts", "api", "exec", "routes", "worker"])
    error_message = "want one service per role and one of all routes"
  }
}

run "a_service_a_role_behind_a_domain" {
  command = plan

  variables {
    domain = "api.example.com"
  }

  assert {
    condition     = toset(keys(google_compute_backend_service.service)) == toset(["accounts", "api", "candidate", "exec", "routes"])
    error_message = "want no backend for workers"
  }
}

run "a_service_of_routes_and_one_of_workers" {
  command = plan

  variables {
    topology = "single"
  }

  assert {
    condition     = toset(keys(google_cloud_run_v2_service.this)) == toset(["exec", "routes", "worker"])
    error_message = "want one service of routes, one of workers and that which enters containers"
  }

  assert {
    condition = alltrue([
      for name, s in google_pubsub_subscription.worker : s.push_config[0].push_endpoint
      == "https://prod-worker-123456789012.us-central1.run.app/workers/${name}"
    ])
    error_message = "want the path of every worker on the single service"
  }
}

run "a_service_of_routes_behind_a_domain" {
  command = plan

  variables {
    topology = "single"
    domain   = "api.example.com"
  }

  assert {
    condition     = length(google_compute_url_map.api["api"].path_matcher[0].route_rules) == 1 + length([for r in local.rules : r if r.service == "exec"])
    error_message = "want no rules for a single service but those of its newest revision and of the service that enters containers"
  }
}

run "it_can_be_applied" {
  variables {
    domain       = "api.example.com"
    alert_emails = ["operator@example.com"]
  }

  assert {
    condition     = strcontains(output.cell_objects["us-central1-1"], "kind: ClusterRole")
    error_message = "want the objects of the cells in the output"
  }
}

run "cells_in_a_separate_project" {
  command = apply

  variables {
    domain               = "api.example.com"
    cells_project        = "my-cells"
    cells_project_number = "210987654321"
  }

  assert {
    condition     = alltrue([for c in google_container_cluster.cell : c.project == "my-cells"]) && google_compute_network.cells.project == "my-cells"
    error_message = "want the clusters and their network in the project of the cells"
  }

  assert {
    condition     = google_monitoring_monitored_project.cells["cells"].name == "my-cells"
    error_message = "want the metrics of the cells in the control plane's project"
  }
}

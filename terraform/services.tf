# Cloud Run services. All use one image: the role selects a binary, FUNCTION_TARGET a function.

locals {
  # Workers mostly wait for clusters, routes for Firestore.
  sizes = {
    worker   = { memory = "512Mi", concurrency = 40, timeout = "600s", max_instances = 50 }
    accounts = { memory = "256Mi", concurrency = 80, timeout = "60s", max_instances = 20 }
    api      = { memory = "256Mi", concurrency = 80, timeout = "60s", max_instances = 20 }
  }

  scaling = {
    for service, s in local.services : service => {
      min_instances = try(var.scaling[service].min_instances, 0)
      max_instances = coalesce(try(var.scaling[service].max_instances, null), local.sizes[s.binary].max_instances)
    }
  }

  # Clients reach routes through the load balancer or, without a domain, at the address of the service of all routes. The process itself
  # authenticates them. Only Pub/Sub, which counts as internal, reaches workers.
  ingress = {
    for service, s in local.services : service => (
      !s.public ? "INGRESS_TRAFFIC_INTERNAL_ONLY"
      : var.domain == "" && service == local.all_routes ? "INGRESS_TRAFFIC_ALL"
      : "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER"
    )
  }
}

resource "google_cloud_run_v2_service" "this" {
  for_each = local.services

  name                 = local.names[each.key]
  location             = var.region
  ingress              = local.ingress[each.key]
  invoker_iam_disabled = each.value.public
  deletion_protection  = false # nothing is kept in it
  labels               = { environment = local.prefix, role = each.value.role }

  template {
    service_account                  = google_service_account.service[each.key].email
    timeout                          = local.sizes[each.value.binary].timeout
    max_instance_request_concurrency = local.sizes[each.value.binary].concurrency

    scaling {
      min_instance_count = local.scaling[each.key].min_instances
      max_instance_count = local.scaling[each.key].max_instances
    }

    containers {
      image   = var.image
      command = ["/ko-app/${each.value.binary}"]

      ports {
        container_port = 8080
      }

      resources {
        limits            = { cpu = "1", memory = local.sizes[each.value.binary].memory }
        cpu_idle          = true # what is left undone between requests is the sweep's
        startup_cpu_boost = true
      }

      dynamic "env" {
        for_each = local.environments[each.key]
        content {
          name  = env.key
          value = env.value
        }
      }

      dynamic "env" {
        for_each = local.secret_environments[each.key]
        content {
          name = env.key
          value_source {
            secret_key_ref {
              secret  = google_secret_manager_secret.this[env.value].secret_id
              version = local.secret_versions[env.value]
            }
          }
        }
      }
    }
  }

  # A revision cannot start without its secrets, nor serve without its roles.
  depends_on = [
    google_secret_manager_secret_iam_member.service,
    google_project_iam_member.service,
    google_pubsub_topic_iam_member.service,
  ]
}

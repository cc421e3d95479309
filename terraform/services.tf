# Cloud Run services. All use one image: the role selects a binary, FUNCTION_TARGET a function.

locals {
  # Workers mostly wait for clusters, routes for Firestore. Cloud Run ends a process that needs more than its memory, which Go's collector
  # would only find out afterwards. With heap, it collects more often instead; the rest is for the program and its stacks. gogc is the growth of
  # the heap, in percent, after which it collects otherwise: a route keeps little between two requests. A held answer needs 58 KiB (P18 of go
  # run ./emulators bench), so the memory of a route is for bodies: a large one is in memory twice while it is decoded.
  sizes = {
    worker   = { memory = "512Mi", heap = "400MiB", gogc = 100, concurrency = 40 }
    accounts = { memory = "512Mi", heap = "400MiB", gogc = 400, concurrency = 250 }
    exec     = { memory = "2048Mi", heap = "1600MiB", gogc = 100, concurrency = 250 } # 200 commands may have 1 MiB of each output, several times
    api      = { memory = "512Mi", heap = "400MiB", gogc = 400, concurrency = 250 }
  }

  # A run of a schedule may take minutes. A push about one agent ends after ten seconds, and an API call after a minute, except that a log or
  # events are followed for as long as the catalogue says. The answer then ends by itself, and Cloud Run cuts it a minute later.
  timeouts = {
    for service, s in local.services : service => (
      s.public ? "${max([for name in s.members : try(local.routes[name].holds_seconds, 0) + 60]...)}s" : length([for name in s.members : name if contains(keys(local.scheduled), name)]) > 0 ? "600s" : "30s"
    )
  }

  # The services in which an agent is created and brought up. A cold start there is a wait for whoever creates an agent. Without a domain all
  # routes are called at the service of all routes.
  creating_services = distinct(concat(
    [
      for name, f in local.routes : var.domain == "" ? local.all_routes : local.service_of[name]
      if f.method == "POST" && endswith(f.path, "/agents")
    ],
    [for name, w in local.workers : local.service_of[name] if w.topic == local.nudge_topic],
  ))

  # The most instances that each function can use: a schedule ticks once a minute at most, and dead letters are rare. Cloud Run refuses a
  # service whose largest size exceeds the project's quota of CPUs, which is 20 in a new project.
  most_instances = {
    for name, f in local.functions : name => (
      contains(keys(local.scheduled), name) ? 2 : contains(values(local.dead_letters), try(f.topic, "")) ? 3 : 10
    )
  }

  scaling = {
    for service, s in local.services : service => {
      min_instances = coalesce(
        try(var.scaling[service].min_instances, null), contains(local.creating_services, service) ? var.warm_instances : 0,
      )
      max_instances = coalesce(
        try(var.scaling[service].max_instances, null), max([for name in s.members : local.most_instances[name]]...),
      )
    }
  }

  # The tag of the newest revision of each service.
  candidate = "candidate"

  # Every deployment makes a revision of each service, so that instances read secrets that were added since.
  revisions = { for service, name in local.names : service => var.release == "" ? null : "${name}-${var.release}" }

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
    revision                         = local.revisions[each.key]
    service_account                  = google_service_account.service[each.key].email
    timeout                          = local.timeouts[each.key]
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

      env {
        name  = "GOMEMLIMIT"
        value = local.sizes[each.value.binary].heap
      }

      env {
        name  = "GOGC"
        value = tostring(local.sizes[each.value.binary].gogc)
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
              secret  = google_secret_manager_secret.this[split(" ", env.value)[0]].secret_id
              version = local.secret_versions[env.value]
            }
          }
        }
      }
    }
  }

  # The new revision has a tag, by which it is tested. Then serve.sh directs the traffic to it. What was directed elsewhere by hand comes
  # back with the next deployment.
  dynamic "traffic" {
    for_each = contains(keys(var.serving), local.names[each.key]) ? [var.serving[local.names[each.key]]] : []
    content {
      type     = "TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION"
      revision = traffic.value
      percent  = 100
    }
  }

  traffic {
    type    = "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST"
    percent = contains(keys(var.serving), local.names[each.key]) ? 0 : 100
    tag     = local.candidate
  }

  lifecycle {
    precondition {
      condition     = local.scaling[each.key].min_instances <= local.scaling[each.key].max_instances
      error_message = "The service ${each.key} keeps more instances than it may have. Raise its max_instances in the variable scaling."
    }
  }

  # A revision cannot start without its secrets, nor serve without its roles and the indexes of its queries.
  depends_on = [
    google_secret_manager_secret_iam_member.service,
    google_project_iam_member.service,
    google_pubsub_topic_iam_member.service,
    google_pubsub_topic_iam_member.webhooks,
    google_firestore_index.this,
    google_firestore_field.this,
  ]
}

# The objects that every cluster has before any agent: the Gateway, the router, the notifier, placeholders, the functions' rights and their
# limits, and metrics collection. The templates are in cell/. The build applies the rendered objects once the cluster exists, from
#
#   terraform output -json cell_objects
#
# Terraform does not apply them itself: its Kubernetes provider calls the API server while planning, and at the first plan no cluster
# exists. Tests apply the same files to a real API server.

locals {
  # The services that call the API servers, by the need of their functions. access.yaml has a role for each.
  callers = {
    for need in ["cluster_apply", "cluster_look", "cluster_collect", "pod_logs", "pod_exec", "pod_quiesce", "log_keep"] : need => sort([
      for service, needs in local.needs_of :
      "${local.account_ids[service]}@${var.project_id}.iam.gserviceaccount.com" if contains(needs, need)
    ])
  }

  # A placeholder takes as much room as an agent's pod: its container and the front.
  warm_plan = [for p in local.plans : p if p.id == var.warm_plan][0]
  plans     = jsondecode(file("${path.module}/../shared/plan/plans.json"))

  # A namespace has room for three pods and volumes of the largest plan. The front of each pod takes less than a core and 1 GiB.
  largest_quota = {
    cpu     = 3 * (max(local.plans[*].cpu_limit_millicores...) + 1000)
    memory  = 3 * (max(local.plans[*].memory_limit_mib...) + 1024)
    storage = 3 * max(local.plans[*].storage_gib...)
  }

  # The images of agents' pods. The build reads them before Terraform applies anything, so they must follow from variables alone.
  cell_images = { for cell, c in var.cells : cell => distinct([var.image, coalesce(c.image, var.agent_image, var.image)]) }

  cell_objects = {
    for cell, c in var.cells : cell => join("\n---\n", [
      for file in [
        "gateway.yaml", "router.yaml", "notifier.yaml", "gate.yaml", "network.yaml", "warm.yaml", "canary.yaml", "access.yaml", "snapshots.yaml", "guard.yaml", "isolation.yaml", "limits.yaml", "pods.yaml", "workload.yaml", "reader.yaml", "fence.yaml", "metrics.yaml",
      ] :
      templatefile("${path.module}/cell/${file}", {
        gateway           = local.gateway
        snapshot_location = c.region
        notifier_account  = local.notifier_account
        canary            = local.canary
        cell_domain       = local.cell_domains[cell]
        address           = google_compute_global_address.cell[cell].name
        certificate_map   = google_certificate_manager_certificate_map.agents.name
        ssl_policy        = google_compute_ssl_policy.edge.name
        security_policy   = try(google_compute_security_policy.edge["agents"].name, "")
        callers           = local.callers
        project           = var.project_id
        nudge_topic       = local.topics[local.nudge_topic]
        environment       = local.prefix
        gate_account      = local.gate_account
        gate_address      = var.gate_address
        gate_secret       = local.gate_secret
        egress_topic      = local.topics[local.egress_topic]
        image             = var.image
        images            = local.cell_images[cell]
        agent_auth        = var.agent_auth
        agent_registries  = var.agent_registries
        agent_resolvers   = var.agent_resolvers
        storage_class     = var.agent_storage_class == "" ? "standard-rwo" : var.agent_storage_class # the default of Autopilot clusters
        quota             = local.largest_quota
        largest_volume    = max(local.plans[*].storage_gib...)
        warm = {
          agents = var.warm_agents
          image  = coalesce(c.image, var.agent_image, var.image)
          cpu    = local.warm_plan.cpu_request_millicores + 10
          memory = local.warm_plan.memory_request_mib + 32
        }
      })
    ])
  }

  # The identity of the notifier, which needs no key. Google tells the ServiceAccounts of a project's clusters apart by namespace and name
  # only, so this is the same in all cells of the environment, and the name keeps other environments out.
  notifier_account = "agent-notifier-${local.prefix}"
  notifier = join("/", [
    "principal://iam.googleapis.com/projects/${local.cells_project_number}/locations/global/workloadIdentityPools/${local.cells_project}.svc.id.goog",
    "subject/ns/${local.gateway.namespace}/sa/${local.notifier_account}",
  ])

  # The identity of the gate, as that of the notifier.
  gate_account = "agent-gate-${local.prefix}"
  gate = join("/", [
    "principal://iam.googleapis.com/projects/${local.cells_project_number}/locations/global/workloadIdentityPools/${local.cells_project}.svc.id.goog",
    "subject/ns/${local.gateway.namespace}/sa/${local.gate_account}",
  ])

  # The version that all gates derive the CAs of agents from. Another one would be unknown to the pods that run.
  gate_secret = google_secret_manager_secret_version.gate.name
}

resource "google_pubsub_topic_iam_member" "gate" {
  project = var.project_id
  topic   = google_pubsub_topic.this[local.egress_topic].name
  role    = "roles/pubsub.publisher"
  member  = local.gate

  depends_on = [google_container_cluster.cell]
}

# The gate reads brokered secrets, and no other secret of agents.
resource "google_project_iam_member" "gate" {
  project = var.project_id
  role    = "roles/secretmanager.secretAccessor"
  member  = local.gate

  condition {
    title      = "brokered secrets of the environment"
    expression = "resource.name.startsWith(\"${local.brokered_secrets}\")"
  }

  depends_on = [google_container_cluster.cell]
}

resource "google_secret_manager_secret_iam_member" "gate" {
  project   = var.project_id
  secret_id = google_secret_manager_secret.this[local.secrets.gate].secret_id
  role      = "roles/secretmanager.secretAccessor"
  member    = local.gate

  depends_on = [google_container_cluster.cell]
}

resource "google_pubsub_topic_iam_member" "notifier" {
  project = var.project_id
  topic   = google_pubsub_topic.this[local.nudge_topic].name
  role    = "roles/pubsub.publisher"
  member  = local.notifier

  # The pool of identities exists with the first cluster.
  depends_on = [google_container_cluster.cell]
}

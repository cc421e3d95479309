# The objects that every cluster has before any agent: the Gateway, the worker's rights and their limits, and metrics collection. The
# templates are in cell/. The build applies the rendered objects once the cluster exists, from
#
#   terraform output -json cell_objects
#
# Terraform does not apply them itself: its Kubernetes provider calls the API server while planning, and at the first plan no cluster
# exists. Tests apply the same files to a real API server.

locals {
  # The services that call the API servers: those with functions that need a cluster.
  callers = sort([
    for service, needs in local.needs_of :
    "${local.account_ids[service]}@${var.project_id}.iam.gserviceaccount.com" if contains(needs, "cluster")
  ])

  cell_objects = {
    for cell, c in var.cells : cell => join("\n---\n", concat(
      [
        for file in ["gateway.yaml", "access.yaml", "guard.yaml", "fence.yaml", "metrics.yaml"] :
        templatefile("${path.module}/cell/${file}", {
          gateway         = local.gateway
          callers         = local.callers
          domain          = var.agent_domain
          address         = google_compute_global_address.cell[cell].name
          certificate_map = google_certificate_manager_certificate_map.agents.name
        })
      ],
      cell == local.first_cell ? [] : [
        templatefile("${path.module}/cell/dns.yaml", {
          gateway = local.gateway
          cell    = cell
          domain  = var.agent_domain
          project = var.project_id
          image   = var.dns_controller_image
        })
      ],
    ))
  }
}

locals {
  # The identity of ExternalDNS, which needs no key.
  dns_controller = join("/", [
    "principal://iam.googleapis.com/projects/${var.project_number}/locations/global/workloadIdentityPools/${var.project_id}.svc.id.goog",
    "subject/ns/${local.gateway.namespace}/sa/dns-controller",
  ])
  dns_controllers = length(var.cells) > 1 ? [local.dns_controller] : []
}

# ExternalDNS writes to the agents' zone, which it finds by listing zones.
resource "google_project_iam_member" "dns_controller" {
  for_each = toset(local.dns_controllers)

  project = var.project_id
  role    = "roles/dns.reader"
  member  = each.value
}

resource "google_dns_managed_zone_iam_member" "dns_controller" {
  for_each = toset(local.dns_controllers)

  project      = var.project_id
  managed_zone = google_dns_managed_zone.agents.name
  role         = "roles/dns.admin"
  member       = each.value
}

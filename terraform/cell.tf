# What is in every cluster before any agent: the Gateway, the worker's rights, the limits of those, the collection of metrics. It is written
# in cell/ and rendered here; the build applies it once the cluster exists, with
#
#   terraform output -json cell_objects
#
# and not Terraform itself: its provider for Kubernetes asks the API server while it plans, and the first plan is of clusters that do not
# exist. It also lets the same files be applied, by tests, to a real API server.

locals {
  # Who calls the API servers: the services of functions that need a cluster.
  callers = sort([
    for service, needs in local.needs_of :
    "${local.account_ids[service]}@${var.project_id}.iam.gserviceaccount.com" if contains(needs, "cluster")
  ])

  cell_objects = {
    for cell, c in var.cells : cell => join("\n---\n", concat(
      [
        for file in ["gateway.yaml", "access.yaml", "guard.yaml", "metrics.yaml"] :
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
  # The controller of DNS, as which it works without a key.
  dns_controller = join("/", [
    "principal://iam.googleapis.com/projects/${var.project_number}/locations/global/workloadIdentityPools/${var.project_id}.svc.id.goog",
    "subject/ns/${local.gateway.namespace}/sa/dns-controller",
  ])
  dns_controllers = length(var.cells) > 1 ? [local.dns_controller] : []
}

# It writes the zone of agents, which it finds by listing.
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

# Cells: the clusters that run agents. They share a network and nothing else.

locals {
  # The project of the clusters, and of all that they need. In a project of the control plane, agents' nodes would share its network, its
  # quotas and its logs.
  cells_project        = var.cells_project == "" ? var.project_id : var.cells_project
  cells_project_number = var.cells_project == "" ? var.project_number : var.cells_project_number

  # What only a separate project needs.
  separate = var.cells_project == "" ? [] : ["cells"]
}

resource "google_compute_network" "cells" {
  project                 = local.cells_project
  name                    = "${local.prefix}-cells"
  auto_create_subnetworks = false
}

resource "google_compute_subnetwork" "cell" {
  for_each = var.cells

  project                  = local.cells_project
  name                     = "${local.prefix}-${each.key}"
  region                   = each.value.region
  network                  = google_compute_network.cells.id
  ip_cidr_range            = cidrsubnet("10.0.0.0/10", 10, each.value.number)
  private_ip_google_access = true

  secondary_ip_range {
    range_name = "pods"
    # 65,536 addresses. A node of up to 32 pods takes 64 of them, so the range holds 1,024 such nodes.
    ip_cidr_range = cidrsubnet("10.64.0.0/10", 6, each.value.number)
  }
}

# Nodes have no public addresses. Agents reach the internet through Cloud NAT.
resource "google_compute_router" "cells" {
  for_each = toset([for c in var.cells : c.region])

  project = local.cells_project
  name    = "${local.prefix}-cells-${each.key}"
  region  = each.key
  network = google_compute_network.cells.id
}

resource "google_compute_router_nat" "cells" {
  for_each = google_compute_router.cells

  project                             = local.cells_project
  name                                = each.value.name
  router                              = each.value.name
  region                              = each.key
  nat_ip_allocate_option              = "AUTO_ONLY"
  source_subnetwork_ip_ranges_to_nat  = "ALL_SUBNETWORKS_ALL_IP_RANGES"
  enable_dynamic_port_allocation      = true
  enable_endpoint_independent_mapping = false
  min_ports_per_vm                    = 32
  max_ports_per_vm                    = 4096
}

# No agent submits mail. Network policies have no rules that deny a port, and Compute Engine itself blocks port 25 only.
resource "google_compute_firewall" "mail" {
  project            = local.cells_project
  name               = "${local.prefix}-cells-no-mail"
  description        = "Closes the ports on which mail is submitted to everything that runs in the cells"
  network            = google_compute_network.cells.id
  direction          = "EGRESS"
  priority           = 900
  destination_ranges = ["0.0.0.0/0"]

  deny {
    protocol = "tcp"
    ports    = ["25", "465", "587"]
  }
}

# Nodes may write logs and metrics and pull images, and nothing else. Image streaming, with which a pod starts before its image is on the
# node, needs the last role.
resource "google_service_account" "nodes" {
  project      = local.cells_project
  account_id   = "${local.prefix}-nodes"
  display_name = "Control plane: nodes of cells"
}

resource "google_project_iam_member" "nodes" {
  for_each = toset([
    "roles/container.defaultNodeServiceAccount", "roles/artifactregistry.reader", "roles/serviceusage.serviceUsageConsumer",
  ])

  # The image registry is in the project of the control plane.
  project = each.value == "roles/artifactregistry.reader" ? var.project_id : local.cells_project
  role    = each.value
  member  = google_service_account.nodes.member
}

resource "google_container_cluster" "cell" {
  for_each = var.cells

  project             = local.cells_project
  name                = "${local.prefix}-${each.key}"
  location            = each.value.region
  enable_autopilot    = true
  deletion_protection = coalesce(each.value.deletion_protection, var.deletion_protection)
  network             = google_compute_network.cells.id
  subnetwork          = google_compute_subnetwork.cell[each.key].id
  resource_labels     = { environment = local.prefix, cell = each.key }

  # The Service range is GKE's default, which the network policies of agents' pods name.
  ip_allocation_policy {
    cluster_secondary_range_name = "pods"
  }

  private_cluster_config {
    enable_private_nodes = true
  }

  # The API server is reached by its DNS endpoint, with a Google identity, and has no IP endpoint.
  control_plane_endpoints_config {
    dns_endpoint_config {
      allow_external_traffic = true
    }
    ip_endpoints_config {
      enabled = false
    }
  }

  cluster_autoscaling {
    auto_provisioning_defaults {
      service_account = google_service_account.nodes.email
      oauth_scopes    = ["https://www.googleapis.com/auth/cloud-platform"]
    }
  }

  gateway_api_config {
    channel = "CHANNEL_STANDARD"
  }

  addons_config {
    gke_backup_agent_config {
      enabled = var.backup_for_gke
    }
  }

  # Billing shows the cost of each namespace, and so of each agent.
  cost_management_config {
    enabled = true
  }

  # Lines of the router and the notifier are WORKLOADS. logging.tf leaves out those of agents.
  logging_config {
    enable_components = ["SYSTEM_COMPONENTS", "WORKLOADS"]
  }

  # System metrics are free, the others are billed by the sample. POD has the pods that find no node.
  monitoring_config {
    enable_components = ["SYSTEM_COMPONENTS", "POD"]

    managed_prometheus {
      enabled = true
    }
  }

  release_channel {
    channel = "REGULAR"
  }

  # An upgrade of nodes moves agents to other nodes, which stops each for a minute or two.
  maintenance_policy {
    recurring_window {
      start_time = var.maintenance_window.start_time
      end_time   = var.maintenance_window.end_time
      recurrence = var.maintenance_window.recurrence
    }

    dynamic "maintenance_exclusion" {
      for_each = var.maintenance_exclusions
      content {
        exclusion_name = maintenance_exclusion.key
        start_time     = maintenance_exclusion.value.start_time
        end_time       = maintenance_exclusion.value.end_time

        exclusion_options {
          scope = maintenance_exclusion.value.scope
        }
      }
    }
  }

  depends_on = [google_project_iam_member.nodes]
}

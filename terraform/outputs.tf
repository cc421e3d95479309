output "base_url" {
  description = "Base URL of the API."
  value       = var.domain == "" ? local.urls[local.all_routes] : "https://${var.domain}"
}

output "services" {
  description = "Cloud Run services, by the names that the variable scaling takes."
  value       = { for service, name in local.names : service => { name = name, functions = local.services[service].members } }
}

output "database" {
  description = "Name of the Firestore database."
  value       = google_firestore_database.records.name
}

output "agent_name_servers" {
  description = "Name servers to which agent_domain must be delegated."
  value       = google_dns_managed_zone.agents.name_servers
}

output "clusters" {
  description = "Cluster name and region of each cell."
  value       = { for cell, c in google_container_cluster.cell : cell => { name = c.name, region = c.location } }
}

output "cell_objects" {
  description = "Kubernetes objects to apply to each cell after Terraform."
  value       = local.cell_objects
}

output "next" {
  description = "Remaining manual steps."
  value = compact([
    "Delegate ${var.agent_domain} to the name servers in agent_name_servers (NS records in its parent zone). Until then, agents cannot be reached.",
    var.domain == "" ? "" : "Point ${var.domain} (A record) to ${google_compute_global_address.api["api"].address}. Google issues its certificate within an hour after that.",
    length(var.alert_emails) == 0 ? "Set alert_emails: alerts have no recipient yet." : "",
    "Apply cell_objects to the clusters, unless cloudbuild.yaml deploys. See terraform/README.md.",
  ])
}

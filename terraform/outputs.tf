output "base_url" {
  description = "Where the API is."
  value       = var.domain == "" ? local.urls[local.all_routes] : "https://${var.domain}"
}

output "services" {
  description = "The services by the names that the variable scaling takes."
  value       = { for service, name in local.names : service => { name = name, functions = local.services[service].members } }
}

output "database" {
  description = "The Firestore database with the records."
  value       = google_firestore_database.records.name
}

output "agent_name_servers" {
  description = "The name servers that the zone of agent_domain must be delegated to."
  value       = google_dns_managed_zone.agents.name_servers
}

output "clusters" {
  description = "The cluster and region of each cell."
  value       = { for cell, c in google_container_cluster.cell : cell => { name = c.name, region = c.location } }
}

output "cell_objects" {
  description = "What is applied to each cell's API server after Terraform."
  value       = local.cell_objects
}

output "next" {
  description = "What is left to do by hand."
  value = compact([
    "Delegate ${var.agent_domain} to the name servers in agent_name_servers (NS records in its parent zone); agents can't be reached before.",
    var.domain == "" ? "" : "Point ${var.domain} (A record) to ${google_compute_global_address.api["api"].address}; its certificate is issued within the hour after.",
    length(var.alert_emails) == 0 ? "Nobody is told of alerts: set alert_emails." : "",
    "Apply cell_objects to the clusters, unless cloudbuild.yaml deploys: see the README, section Deploy.",
  ])
}

output "base_url" {
  description = "Base URL of the API."
  value       = local.base_url
}

output "api_records" {
  description = "DNS records to create for the domain of the API."
  value       = local.api_records
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
  description = "Cluster name, region and project of each cell, and whether it is closed."
  value = {
    for cell, c in google_container_cluster.cell : cell => {
      name = c.name, region = c.location, project = c.project, closed = var.cells[cell].closed
    }
  }
}

output "cell_objects" {
  description = "Kubernetes objects to apply to each cell after Terraform."
  value       = local.cell_objects
}

output "api_address" {
  description = "IP address of the load balancer in front of the API. Empty without a domain."
  value       = var.domain == "" ? "" : google_compute_global_address.api["api"].address
}

output "api_certificate" {
  description = "Name of the API's certificate. Empty without a domain."
  value       = var.domain == "" ? "" : google_certificate_manager_certificate.api["api"].name
}

output "revisions" {
  description = "The revision of each Cloud Run service that this release made, as JSON."
  value       = jsonencode({ for service, name in local.names : name => local.revisions[service] if local.revisions[service] != null })
}

output "candidate_url" {
  description = "Where the newest revision of the service of all routes is called before it has the traffic. With a domain, calls need the header Release-Candidate."
  value       = var.domain == "" ? replace(local.base_url, "https://", "https://${local.candidate}---") : local.base_url
}

output "maintenance" {
  description = "on if functions refuse all calls, and empty otherwise. A deployment that ends this does not leave the traffic to what refuses calls."
  value       = var.maintenance ? "on" : ""
}

# Settings without which no person reads what the deployment reports.
locals {
  unwatched = [
    length(var.alert_emails) == 0 ? "Set alert_emails: alerts have no recipient yet." : "",
    var.billing_account == "" ? "Set billing_account: no budget tells you yet what the deployment costs." : "",
  ]
}

output "next" {
  description = "Remaining manual steps."
  value = join("", [for step in compact(concat([
    var.maintenance ? "Set maintenance = false and deploy when the maintenance ends: functions refuse all calls, and the alerts about that are off." : "",
    "Delegate ${var.agent_domain} to these name servers (NS records in its parent zone): ${join(" ", google_dns_managed_zone.agents.name_servers)}. Until then, agents cannot be reached.",
    var.domain == "" ? "" : "Create the DNS records of the API: ${join(", ", local.api_records)}. Google issues its certificate once the CNAME record exists.",
  ], local.unwatched)) : "${step}\n"])
}

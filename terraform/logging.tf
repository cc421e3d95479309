# What is not stored. Metrics from lines count excluded ones, too.

# What agents print is their owners' data, and one of them can print for hundreds of dollars a month. It is not stored: owners read it from
# the cluster, which keeps the last lines of each container. Lines of the router and the notifier are stored.

locals {
  # Package shared/agent derives the namespace from the agent's ID. The canary has the nil UUID, and its lines are stored.
  agent_namespaces = "^agent-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
}

resource "google_logging_project_exclusion" "agents" {
  project     = local.cells_project
  name        = "${local.prefix}-agents"
  description = "Output of agents' containers"
  filter = join(" AND ", [
    "resource.type=\"k8s_container\"",
    "resource.labels.cluster_name=(${join(" OR ", [for cell in sort(keys(var.cells)) : "\"${local.prefix}-${cell}\""])})",
    "resource.labels.namespace_name=~\"${local.agent_namespaces}\"",
    "resource.labels.namespace_name!=\"${local.canary.namespace}\"",
  ])
}

# Cloud Run writes a line about each request, and so does the function, with the caller and the code: one is enough. Cloud Run's lines about
# failures are stored, because a process that ended wrote none.
resource "google_logging_project_exclusion" "requests" {
  project     = var.project_id
  name        = "${local.prefix}-requests"
  description = "Cloud Run's own lines about requests that did not fail"
  filter = join(" AND ", [
    local.functions_log,
    "logName=\"projects/${var.project_id}/logs/run.googleapis.com%2Frequests\"",
    "httpRequest.status<500",
  ])
}

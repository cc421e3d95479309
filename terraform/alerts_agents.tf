# Alerts about agents and the cells that run them.

locals {
  clusters = join("|", [for cell in keys(var.cells) : "${local.prefix}-${cell}"])

  # Labels that select the metrics of the cells' pods: of Google Kubernetes Engine, and of Managed Prometheus.
  on_pods    = "monitored_resource=\"k8s_pod\",cluster_name=~\"${local.clusters}\",namespace_name=~\"agent-.*\""
  on_cluster = "cluster=~\"${local.clusters}\""

  # Requests to agents, counted by the router.
  agent_requests = "http_requests_total"
  unanswered     = "${local.agent_requests}{${local.on_cluster},code=~\"502|503|504\"}"

  canary_checks = join("|", [for name, check in local.uptime_checks : check.host if name != "api"])
  checks        = join("|", [for check in local.uptime_checks : check.host])

  # What all agents of a cell may send in a day before the operator should look: 500 GiB, which cost about $80.
  cell_egress_limit = 500 * 1024 * 1024 * 1024

  # What an agent may send in six hours before the operator should look: 10 GiB, which costs about $1.60.
  egress_limit = 10 * 1024 * 1024 * 1024

  # Queries with a condition for each cell give each result the label cell: results without one would be the same series, and the first cell's
  # would hide the others.
  agent_alerts = {
    agents_out_of_reach = {
      title = "A cell is out of reach", severity = "CRITICAL", for = "120s"
      query = "avg by (host) (avg_over_time(monitoring_googleapis_com:uptime_check_check_passed{monitored_resource=\"uptime_url\",host=~\"${local.canary_checks}\"}[5m])) < 0.5"
      todo  = "Requests from outside to the canary of a cell fail, so no agent of the cell can be reached either. Follow the way of a request: the name servers of the agents' domain, the DNS record, the certificate, the Gateway agents in the namespace agent-gateway (kubectl describe), the router, the canary's pods."
    }
    certificate = {
      title = "A certificate expires", severity = "ERROR", for = "600s"
      query = "min by (host) (last_over_time(monitoring_googleapis_com:uptime_check_time_until_ssl_cert_expires{monitored_resource=\"uptime_url\",host=~\"${local.checks}\"}[1h])) < 15"
      todo  = "The certificate of a host expires within 15 days. Google renews a managed certificate a month before, so the renewal fails: look at the state of the certificate in Certificate Manager, and whether the DNS record of its authorization still exists."
    }
    router = {
      title = "A cell has too few routers", severity = "CRITICAL", for = "120s"
      query = join(" or ", [
        for cell in keys(var.cells) :
        "label_replace((sum(up{cluster=\"${local.prefix}-${cell}\",namespace=\"${local.gateway.namespace}\",job=\"agent-router\"}) or vector(0)) < 2, \"cell\", \"${cell}\", \"\", \"\")"
      ])
      todo = "Fewer than two routers of the cell that the alert names answer. Without a router no agent of the cell can be reached. Look at the pods and events of the Deployment agent-router in the namespace agent-gateway: nodes, image, API server."
    }
    gate = {
      title = "A cell has too few gates", severity = "CRITICAL", for = "120s"
      query = join(" or ", [
        for cell in keys(var.cells) :
        "label_replace((sum(up{cluster=\"${local.prefix}-${cell}\",namespace=\"${local.gateway.namespace}\",job=\"agent-gate\"}) or vector(0)) < 2, \"cell\", \"${cell}\", \"\", \"\")"
      ])
      todo = "Fewer than two gates of the cell that the alert names answer. Without a gate, agents with a list of names reach nothing, and those with brokered secrets do not start. Look at the pods and events of the Deployment agent-gate in the namespace agent-gateway: nodes, image, the secret from which the agents' certificates follow."
    }
    notifier = {
      title = "A cell has no notifier", severity = "CRITICAL", for = "300s"
      query = join(" or ", [
        for cell in keys(var.cells) :
        "label_replace((sum(kube_pod_container_status_ready{cluster=\"${local.prefix}-${cell}\",namespace=\"${local.gateway.namespace}\",container=\"notifier\"}) or vector(0)) < 1, \"cell\", \"${cell}\", \"\", \"\")"
      ])
      todo = "The notifier of the cell that the alert names is not ready. Until it is, requests wake no agent that sleeps and are answered with 503, and changes of pods are found by the sweep only. Look at the pod and events of the Deployment agent-notifier in the namespace agent-gateway: node, image, API server."
    }
    gate_failures = {
      title = "A gate cannot use Google Cloud", severity = "ERROR", for = "300s"
      query = join(" or ", [
        for m in ["gate_value_reads_total{${local.on_cluster},result=\"failed\"}", "gate_report_failures_total{${local.on_cluster}}"] :
        "sum by (cluster) (increase(${m}[15m])) > 10"
      ])
      todo = "The gates of a cell cannot read brokered secrets, so that agents' requests fail, or cannot publish what agents were refused. Look at the gates' log, and at the rights of their account."
    }
    agents_unreachable = {
      title = "Agents do not answer", severity = "CRITICAL", for = "300s"
      query = join("", [
        "count by (cluster) (sum by (cluster, host) (rate(${local.unanswered}[5m])) > 0) > 5 and ",
        "count by (cluster) (sum by (cluster, host) (rate(${local.unanswered}[5m])) > 0)",
        " / count by (cluster) (sum by (cluster, host) (rate(${local.agent_requests}{${local.on_cluster}}[5m])) > 0) > 0.2",
      ])
      todo = "The router of a cell answers for more than a fifth of the agents that are called, because their pods do not. One agent's failures raise no alert: its code may be the cause. Look for nodes that are upgraded or lost, and at the router's log."
    }
    agents_broke = {
      title = "Many agents broke", severity = "ERROR", for = "60s"
      query = "sum(increase(${local.counted.agent_broke}[15m])) > 5"
      todo  = "More than five running agents went to error within 15 minutes. One agent's failures raise no alert: its code may be the cause. The log lines have the reasons and the cells: an image that was changed, a node that is lost, memory."
    }
    slow_starts = {
      title = "New agents start slowly", severity = "WARNING", for = "300s"
      # Quickly, if half of the starts of an hour are too slow; and if the objective was missed over six hours.
      query = join(" or ", [
        for o in [{ quantile = 0.5, window = "1h", fewest = 5 }, { quantile = 0.9, window = "6h", fewest = 10 }] : join("", [
          "(histogram_quantile(${o.quantile}, sum by (le) (increase(${local.starts}_bucket{${local.on_functions}}[${o.window}]))) > 60",
          " and sum(increase(${local.starts}_count{${local.on_functions}}[${o.window}])) >= ${o.fewest})",
        ])
      ])
      todo = "The objective is that 9 of 10 new agents run within a minute. Most often they wait for nodes: look at the placeholders in the namespace agent-warm and at the project's quotas, or raise warm_agents. The stages of an agent say which step took long."
    }
    unschedulable = {
      title = "Pods find no node", severity = "ERROR", for = "60s"
      query = join(" and ", [
        for offset in ["", " offset 15m"] : "kube_pod_status_unschedulable{${local.on_cluster},namespace=~\"agent-.*\"}${offset} == 1"
      ])
      todo = "A pod has waited for a node for 15 minutes. Look at the events of the pod (kubectl describe): most often a quota of the project is used up (CPUs, SSD), or a zone has no machines. In the namespace agent-warm it is a placeholder: agents still start, and slower."
    }
    volumes = {
      title = "A volume is nearly full", severity = "WARNING", for = "600s", every = "600s"
      query = "max by (cluster_name, namespace_name) (kubernetes_io:pod_volume_utilization{${local.on_pods},volume_name=\"data\"}) > 0.95"
      todo  = "The volume of the agent that the namespace names is nearly full. The agent fails when it is. Tell its owner to delete data or to choose a larger plan."
    }
    egress = {
      title = "An agent sends much data", severity = "WARNING", for = "600s", every = "600s"
      query = "sum by (cluster_name, namespace_name) (increase(kubernetes_io:pod_network_sent_bytes_count{${local.on_pods},namespace_name!=\"${local.gateway.namespace}\"}[6h])) > ${local.egress_limit}"
      todo  = "The agent that the namespace names sent more than 10 GiB within six hours, answers to its clients included. Egress to the internet costs about $0.17 a GiB with NAT. If it is abuse, suspend the organization with the operator's tool, which stops its agents."
    }
    cell_egress = {
      title = "The agents of a cell send much data", severity = "WARNING", for = "600s"
      query = "sum by (cluster_name) (increase(kubernetes_io:pod_network_sent_bytes_count{${local.on_pods},namespace_name!=\"${local.gateway.namespace}\"}[1d])) > ${local.cell_egress_limit}"
      todo  = "All agents of the cell together sent more than 500 GiB within a day, answers to their clients included. Each may be below its limit. Egress to the internet costs about $0.17 a GiB with NAT. Look at who sends most: many small senders on free plans are abuse, and max_free_agents bounds them. If it is growth, raise cell_egress_limit."
    }
    nat = {
      title = "Cloud NAT drops packets", severity = "ERROR", for = "60s"
      query = "sum by (gateway_name) (increase(router_googleapis_com:nat_dropped_sent_packets_count{monitored_resource=\"nat_gateway\",gateway_name=~\"${local.prefix}-cells-.*\",reason=\"OUT_OF_RESOURCES\"}[10m])) > 100"
      todo  = "A node has more connections to one destination than Cloud NAT has ports for it, so agents' connections fail. Find the agent with the many connections. If the use is legitimate, raise max_ports_per_vm."
    }
  }
}

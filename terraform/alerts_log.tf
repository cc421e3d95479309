# Alerts about single log lines, by their attribute event; see package shared/logevent. They are rare, and each is worth a look. Lines of
# Google's services name their log.

locals {
  # Workers by how often they run. One failed run of the first is repaired within a minute.
  minutely = [for name, w in local.scheduled : name if w.schedule == "* * * * *"]
  often    = [for name, w in local.scheduled : name if startswith(w.schedule, "*/")]
  seldom   = [for name, w in local.scheduled : name if !startswith(w.schedule, "*")]
  daily    = [for name in local.seldom : name if !can(regex("^[0-9,]+ \\*", local.scheduled[name].schedule))]

  log_alerts = {
    agents_expired = {
      title = "Agents missed their deadline", severity = "ERROR", lines = "jsonPayload.event=\"agents_expired\""
      todo  = "The pods of agents were not ready at their deadline; the agents are in error now. config.error names the reason. One agent: check its image and its volume. Many agents: check the cell (nodes, quota, router) and the worker's log."
    }
    nudge_dead_lettered = {
      title = "Work on an agent was given up", severity = "ERROR", lines = "jsonPayload.event=\"nudge_dead_lettered\""
      todo  = "Work on an agent failed 20 times, not counting outages. The log line has its ID; its config.error has the reason. Fix the cause, then POST /api/v1/agents/{agent_id}/restart."
    }
    usage_drift_repaired = {
      title = "Usage drifted", severity = "WARNING", lines = "jsonPayload.event=\"usage_drift_repaired\""
      todo  = "The recorded usage of an organization differed from what its agents hold. It was repaired, but it indicates a bug: the log line has both counts. Report it with the organization's audit log of that day."
    }
    cleanup_refused = {
      title = "Cleanup refused to delete", severity = "CRITICAL"
      lines = "jsonPayload.event=(\"orphan_limit_exceeded\" OR \"orphan_unproven\" OR \"missing_pod_limit_exceeded\")"
      todo  = "Many namespaces or secrets have no agent, a whole cell has no known agent, or many running agents have no pod. Nothing was deleted, and nothing will be while this lasts. Check FIRESTORE_DATABASE and CELLS of the workers, and whether the database was restored."
    }
    plan_unknown = {
      title = "A plan is unknown", severity = "ERROR", lines = "jsonPayload.event=\"plan_unknown\""
      todo  = "An organization or an agent is on a plan that this release does not know, as after a roll-back. Billing leaves its agents as they are. Deploy a release that knows the plan that the log line names."
    }
    several_subscriptions = {
      title = "An organization pays twice", severity = "ERROR", lines = "jsonPayload.event=\"several_subscriptions\""
      todo  = "An organization has more than one live subscription, as after two checkouts at the same time. Its plan is that of the latest paid one. The log line has the organization and the subscriptions: cancel all but one at Stripe, and refund what was paid for the others. The line comes daily until then."
    }
    rare_run_failed = {
      title = "A rare run failed", severity = "ERROR"
      lines = "jsonPayload.event=\"scheduled_run_failed\" AND jsonPayload.worker=(${join(" OR ", [for name in local.seldom : "\"${name}\""])})"
      todo  = "A run of a worker that runs once an hour or once a day failed, in whole or for some of the agents. The next run repeats the work. The log line names the worker and has the errors: a cell that is down, a record, a permission."
    }
    drift_limit_exceeded = {
      title = "Many agents' objects differ from their records", severity = "ERROR", lines = "jsonPayload.event=\"drift_limit_exceeded\""
      todo  = "The drift check repairs 100 agents in ten minutes. After a release that changes policies or routes this is expected and ends by itself. Otherwise something changes or deletes agents' objects, or CELLS names the wrong clusters: the lines of event drift_repaired have the objects."
    }
    release_stopped = {
      title = "A release stopped", severity = "ERROR", lines = "jsonPayload.event=\"release_stopped\""
      todo  = "A release moves no more agents: too many went back to their former version, or it cannot go on. The line says why. operator release show lists the failed agents with their reasons. Then operator release resume, or operator release revert, which returns all agents to what they ran before. Nothing changes until you decide."
    }
    agent_data_lost = {
      title = "An agent lost its volume", severity = "ERROR", lines = "jsonPayload.event=\"agent_data_lost\""
      todo  = "The namespace or the volume claim of a running agent was deleted outside the control plane. The line has the agent and the cell. If only the claim was deleted, restore a snapshot (README.md, Restore). A namespace took the snapshots along: restore it from Backup for GKE, or stop and start the agent, which begins with an empty volume. Many agents: CELLS of the workers may name the wrong clusters."
    }
    backup_failed = {
      title = "A backup failed", severity = "ERROR", lines = "jsonPayload.inputBackup.state=\"FAILED\""
      log   = "resource.type=\"gkebackup.googleapis.com/BackupPlan\" AND ${local.backups_log}", of_cells = true
      todo  = "A daily backup of agents' volumes in a cell failed, so what customers were promised is a day old and getting older. The line has the reason. Repair it and start a backup by hand. If the reason is that no namespace was selected, the cell has nothing to back up."
    }
    snapshot_failed = {
      title = "A daily snapshot failed", severity = "ERROR", lines = "jsonPayload.event=\"snapshot_failed\""
      todo  = "The daily snapshot of an agent's volume could not be taken, so what its owner can restore is a day old and getting older. The line has the agent, the cell and the problem: a quota of snapshots, the cell's storage or API, or the program of the image that makes the volume quiet. The next one is due a day later."
    }
    records_not_backed_up = {
      title = "The records are not backed up", severity = "ERROR", lines = "jsonPayload.event=\"records_not_backed_up\""
      todo  = "The newest complete backup of the database is older than two days. Any minute of the last seven days can still be restored. Look at the backups and their states, and whether the daily schedule of the database exists: gcloud firestore backups list, and gcloud firestore backups schedules list. A deployment makes the schedule again."
    }
    record_unreadable = {
      title = "A record cannot be read", severity = "ERROR", lines = "jsonPayload.event=\"record_unreadable\""
      todo  = "A list left out a record that this release cannot decode, so no worker attends to it. The log line has its collection, its ID and the field: repair the document, or roll back to the release that wrote it."
    }
    secret_budget_exhausted = {
      title = "Requests may not write secrets", severity = "ERROR", lines = "jsonPayload.event=\"secret_budget_exhausted\""
      todo  = "All requests together reached their share of Secret Manager's quota, so customers get 503 secret_quota_exceeded. Workers have the rest and go on. Raise the project's quota of writes and reads and set secret_manager_writes_per_minute; README.md says from which value on this makes changes slower. The lines name the organizations: one that is in most of them may be misused."
    }
    free_agents_near_maximum = {
      title = "Free agents are near their maximum", severity = "WARNING", lines = "jsonPayload.event=\"free_agents_near_maximum\""
      todo  = "Organizations on free plans have more than 80 % of the agents of max_free_agents. At the maximum, new ones get 402 free_agents_exhausted. Look at the newest organizations with the operator's tool and suspend those that misuse the service, or raise max_free_agents: each free agent costs what README.md says."
    }
    audit_entry_missing = {
      title = "The audit log has a gap", severity = "ERROR", lines = "jsonPayload.event=\"audit_entry_missing\""
      todo  = "Firestore refused an audit entry. The log line has the entry: keep it."
    }
  }
}

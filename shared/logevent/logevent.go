// Package logevent names the log lines that alerts, log-based metrics and dashboards count. A line carries its name in
// the attribute Key, so its message can change without breaking an alert. It does not write log lines.
package logevent

// Key is the key of the attribute that holds a name.
const Key = "event"

// Name names one kind of log line. terraform/signals.tf counts each name: change both together.
type Name string

// The names.
const (
	// AgentsExpired: a worker ended the work on an agent whose pod was not ready at its deadline.
	AgentsExpired Name = "agents_expired"
	// NudgeDeadLettered: a nudge reached the limit of deliveries after many failed attempts, and the work on its agent
	// was given up.
	NudgeDeadLettered Name = "nudge_dead_lettered"
	// NudgeNotPublished: a nudge could not be published. The sweep will publish it again, for a webhook when it is due.
	NudgeNotPublished Name = "nudge_not_published"
	// UsageDriftRepaired: an organization's recorded usage differed from what its agents hold, and was repaired.
	UsageDriftRepaired Name = "usage_drift_repaired"
	// AuditEntryMissing: the audit entry of a call could not be written.
	AuditEntryMissing Name = "audit_entry_missing"
	// OrphanLimitExceeded: more namespaces or owners of secrets have no agent than one run may delete, so none was
	// touched.
	OrphanLimitExceeded Name = "orphan_limit_exceeded"
	// SeveralSubscriptions: an organization pays for more than one subscription.
	SeveralSubscriptions Name = "several_subscriptions"
	// PlanUnknown: billing left agents as they are, because this release does not know a plan.
	PlanUnknown Name = "plan_unknown"
	// OrphanUnproven: an orphan was left alone, because no listed agent of its place has a record.
	OrphanUnproven Name = "orphan_unproven"
	// MissingPodLimitExceeded: more running agents lack a pod than one run may repair.
	MissingPodLimitExceeded Name = "missing_pod_limit_exceeded"
	// ScheduledRunFailed: a run of a scheduled worker, which the line names, failed in whole or in part.
	ScheduledRunFailed Name = "scheduled_run_failed"
	// DriftRepaired: objects of an agent differed from its record, and a worker applies them again.
	DriftRepaired Name = "drift_repaired"
	// DriftLimitExceeded: the objects of more agents differ from their records than one run may repair.
	DriftLimitExceeded Name = "drift_limit_exceeded"
	// AgentDataLost: the namespace or the volume claim of a running agent does not exist.
	AgentDataLost Name = "agent_data_lost"
	// SnapshotFailed: the daily snapshot of an agent's volume could not be taken.
	SnapshotFailed Name = "snapshot_failed"
	// RecordsNotBackedUp: the newest backup of the records is older than two days.
	RecordsNotBackedUp Name = "records_not_backed_up"
	// RecordUnreadable: a stored record could not be decoded and was left out of a list.
	RecordUnreadable Name = "record_unreadable"
	// SecretBudgetExhausted: a request was refused, because all requests together reached their share of the secret
	// store's quota.
	SecretBudgetExhausted Name = "secret_budget_exhausted"
	// FreeAgentsNearMaximum: the agents of organizations on free plans are near the maximum of the deployment.
	FreeAgentsNearMaximum Name = "free_agents_near_maximum"
	// AgentStarted: a new agent runs for the first time. The line has the seconds since the request for it.
	AgentStarted Name = "agent_started"
	// AgentBroke: a running agent failed, and its status is now error.
	AgentBroke Name = "agent_broke"
	// ReleaseStopped: a release stopped itself, because too many agents failed or it cannot go on.
	ReleaseStopped Name = "release_stopped"
	// ReleaseStep: a release moved or judged agents, began a wave, or ended.
	ReleaseStep Name = "release_step"
)

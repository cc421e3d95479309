// Package logevent names the log lines that alerts, log-based metrics and dashboards count. A line carries its name as
// the attribute Key, so that its sentence can change without changing what is counted. It does not log anything.
package logevent

// Key is the key of the attribute that holds a name.
const Key = "event"

// Name names one kind of log line. Names are part of the interface to operators: terraform/signals.tf counts each of
// them.
type Name string

// The names.
const (
	// AgentsExpired: the sweep ended work on agents at its deadline.
	AgentsExpired Name = "agents_expired"
	// NudgeDeadLettered: the work on an agent was delivered too often and was given up.
	NudgeDeadLettered Name = "nudge_dead_lettered"
	// NudgeNotPublished: a nudge could not be published; the sweep repeats it.
	NudgeNotPublished Name = "nudge_not_published"
	// UsageDriftRepaired: an organization's recorded usage differed from what its agents hold, and was repaired.
	UsageDriftRepaired Name = "usage_drift_repaired"
	// AuditEntryMissing: the audit entry of a call could not be written.
	AuditEntryMissing Name = "audit_entry_missing"
	// OrphanLimitExceeded: more namespaces have no agent than one run may delete.
	OrphanLimitExceeded Name = "orphan_limit_exceeded"
	// MissingPodLimitExceeded: more running agents have no pod than one run may repair.
	MissingPodLimitExceeded Name = "missing_pod_limit_exceeded"
	// AgentBroke: a running agent failed and is in error now.
	AgentBroke Name = "agent_broke"
)

package agent

import "slices"

// Status is where an agent is in its life.
type Status string

// The statuses of the interface.
const (
	Pending      Status = "pending"
	Provisioning Status = "provisioning"
	Running      Status = "running"
	Paused       Status = "paused"
	Stopped      Status = "stopped"
	Error        Status = "error"
	Deleting     Status = "deleting"
)

// statusFact is something that is true of an agent because of its status.
type statusFact uint

const (
	// steady: the status stays until a client acts or the pod breaks or recovers.
	steady statusFact = 1 << iota
	// up: the agent runs or is on the way there.
	up
	// wantsPod: the desired state is a running pod.
	wantsPod
	// freesCompute: the agent holds no CPU and memory of its organization's plan.
	freesCompute
	// freesSlot: the agent does not count against the plan's number of agents.
	freesSlot
	// freesStorage: the agent's volume does not count against the plan's storage.
	freesStorage
)

type statusRow struct {
	status Status
	facts  statusFact
}

// statuses lists every status, in the order in which the interface documents them, and what follows from it.
func statuses() []statusRow {
	return []statusRow{
		{Pending, up | wantsPod},
		{Provisioning, up | wantsPod},
		{Running, up | wantsPod | steady},
		{Paused, steady},
		{Stopped, steady | freesCompute},
		{Error, steady | wantsPod},
		{Deleting, freesCompute | freesSlot | freesStorage},
	}
}

// has reports whether a fact is true of the status. A status that this release doesn't know has none, so it holds all
// that an agent can hold.
func (s Status) has(fact statusFact) bool {
	for _, row := range statuses() {
		if row.status == s {
			return row.facts&fact != 0
		}
	}
	return false
}

// Known reports whether this release knows the status. After a roll-back, an agent may have one of a later release,
// which alone knows whether the agent has a pod.
func (s Status) Known() bool {
	return slices.ContainsFunc(statuses(), func(row statusRow) bool { return row.status == s })
}

// Values lists the statuses in the order in which the interface documents them.
func (Status) Values() []string {
	var values []string
	for _, row := range statuses() {
		values = append(values, string(row.status))
	}
	return values
}

// IsSteady reports whether the agent stays in the status until a client acts or its pod breaks or recovers.
func (s Status) IsSteady() bool { return s.has(steady) }

// Up reports whether an agent in the status runs or is on the way there.
func (s Status) Up() bool { return s.has(up) }

// StatusReason says who or what paused or stopped an agent.
type StatusReason string

// The reasons.
const (
	// Manual: a client asked for it.
	Manual StatusReason = "manual"
	// Billing: the subscription is past due after its grace period.
	Billing StatusReason = "billing"
	// ReasonIdle: the agent sleeps because it was idle, and its SleepPolicy says what wakes it.
	ReasonIdle StatusReason = "idle"
)

// Values lists the reasons.
func (StatusReason) Values() []string {
	return []string{string(Manual), string(Billing), string(ReasonIdle)}
}

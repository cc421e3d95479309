package agent

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

// Values lists the statuses in the order the interface documents them.
func (Status) Values() []string {
	return []string{
		string(Pending), string(Provisioning), string(Running), string(Paused), string(Stopped), string(Error),
		string(Deleting),
	}
}

// IsSteady reports whether the status stays as it is until somebody acts.
func (s Status) IsSteady() bool {
	return s == Running || s == Paused || s == Stopped || s == Error
}

// Up reports whether an agent in the status runs, or is on the way there.
func (s Status) Up() bool { return s == Running || s == Provisioning || s == Pending }

// StatusReason says who or what paused or stopped an agent.
type StatusReason string

// The reasons.
const (
	// Manual: a client asked for it.
	Manual StatusReason = "manual"
	// Billing: the subscription is past due after its grace.
	Billing StatusReason = "billing"
)

// Values lists the reasons.
func (StatusReason) Values() []string { return []string{string(Manual), string(Billing)} }

package agent

import "time"

// Observation is what the cluster last reported about an agent's pod, in the cluster's words. It never holds text that
// the agent's program wrote.
type Observation struct {
	// Reason is the cluster's name for the state, such as OOMKilled, ImagePullBackOff or Unschedulable.
	Reason string
	// Exited is true if the agent's container has ended, with ExitCode.
	Exited   bool
	ExitCode int
	// Restarts counts how often the container was started again.
	Restarts int
	// Lacks names what no machine has enough of, such as "cpu, memory".
	Lacks string
	// Since is when the pod became not Ready, or was created.
	Since time.Time
}

// sameFailure reports whether clients see the same in two failures. They do not see the observation.
func sameFailure(a, b *Failure) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	x.Observed, y.Observed = Observation{}, Observation{}
	return x == y
}

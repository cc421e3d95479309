package agent

import "time"

// Isolation is how an agent's pod is kept apart from its machine.
type Isolation string

// The kinds of isolation.
const (
	// Plain is a container like any other.
	Plain Isolation = "plain"
	// Sandboxed is the sandboxed runtime class.
	Sandboxed Isolation = "sandboxed"
)

func (a Agent) isolation() Isolation {
	if a.Sandbox {
		return Sandboxed
	}
	return Plain
}

// Codes of failures that decide what becomes of an agent.
const (
	// CodeSandboxUnschedulable: the cluster has no sandbox for the agent.
	CodeSandboxUnschedulable = "sandbox_unschedulable"
	// CodeUnschedulable: no machine has room for the agent, or is of the kind that its sandbox needs.
	CodeUnschedulable = "pod_unschedulable"
)

// sandboxRefused reports whether a failure is the end of an attempt to move into the sandbox. It is that only for an
// agent that is known to run outside: one that never ran, or ran in the sandbox, is not let out of it without being
// asked for.
func (a Agent) sandboxRefused(f Failure) bool {
	return a.Sandbox && a.LastReadyIsolation == Plain &&
		(f.Code == CodeSandboxUnschedulable || f.Code == CodeUnschedulable)
}

// revertSandbox takes the agent back to the pod that it had before it was to move into the sandbox. The status stays,
// and the client is told why for as long as nothing else is changed.
func (a *Agent) revertSandbox(now time.Time) {
	f := Failure{
		Code: CodeSandboxUnschedulable,
		Message: "The agent's cluster has no sandbox for it. The sandbox was turned off again, and the agent runs as before, with its volume. " +
			"Have the operator provide the sandbox before you turn it on again.",
	}
	a.Sandbox = false
	a.Failure, a.RevertReason = &f, &f
	a.Lease = Lease{}
	a.replacePod(now)
	a.Deadline = now.Add(ReadinessTimeout) // what was left of the former one may be nothing
}

// Repair has a worker bring about once more a running agent that something was taken away from.
func (a *Agent) Repair(now time.Time) {
	if a.Status == Running && a.Converged() {
		a.replacePod(now)
	}
}

// Break records why a running agent doesn't run any more. While a worker is at the agent, what becomes of it is that
// worker's to say.
func (a *Agent) Break(f Failure, now time.Time) {
	if a.Status == Running && a.Converged() {
		a.GiveUp(f, now)
	}
}

// Recoverable reports whether an agent in error lacks nothing but a pod that is ready.
func (a Agent) Recoverable() bool {
	left := a.Unfinished()
	return a.Status == Error && a.Converged() && (len(left) == 0 || len(left) == 1 && left[0] == StageReady)
}

// Recover records that the pod of an agent in error became Ready and answers by itself.
func (a *Agent) Recover(now time.Time) {
	if a.Recoverable() {
		a.EndStage(StageReady, StageSucceeded, now)
		a.BecameReady(now)
		a.proveRotation(now)
	}
}

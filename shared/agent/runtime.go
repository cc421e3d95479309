package agent

import "time"

// Isolation is how an agent's pod is isolated from its machine.
type Isolation string

// The kinds of isolation.
const (
	// Plain is an ordinary container.
	Plain Isolation = "plain"
	// Sandboxed is a container of the sandboxed runtime class.
	Sandboxed Isolation = "sandboxed"
)

func (a Agent) isolation() Isolation {
	if a.Sandbox {
		return Sandboxed
	}
	return Plain
}

// CodeValueUnavailable is the code of an agent that cannot start, because the value of a secret is not known to be in
// the secret store.
const CodeValueUnavailable = "secret_value_unavailable"

// CodeObjectRejected is for an object that the cluster does not accept. The message may name keys of variables.
const CodeObjectRejected = "object_rejected"

// publicMessage returns a message about a code as members and events have it: without the keys of variables, which are
// for admins.
func publicMessage(code, message string) string {
	switch code {
	case CodeValueUnavailable:
		return "The value of a secret is missing. An admin can set it again."
	case CodeObjectRejected:
		return "The cluster does not accept the agent's configuration. Contact support."
	default:
		return message
	}
}

// public returns the failure with its public message; nil for none.
func (f *Failure) public() *Failure {
	if f == nil {
		return nil
	}
	shown := *f
	shown.Message = publicMessage(f.Code, f.Message)
	return &shown
}

// Codes of failures that may revert the move into the sandbox.
const (
	// CodeSandboxUnschedulable: the cluster has no sandbox for the agent.
	CodeSandboxUnschedulable = "sandbox_unschedulable"
	// CodeUnschedulable: no machine has room for the agent, or none has the sandbox that it needs.
	CodeUnschedulable = "pod_unschedulable"
)

// sandboxRefused reports whether a failure ends an attempt to move into the sandbox. Only an agent that last ran
// outside the sandbox may go back: any other leaves the sandbox only when its client asks for it.
func (a Agent) sandboxRefused(f Failure) bool {
	return a.Sandbox && a.LastReadyIsolation == Plain &&
		(f.Code == CodeSandboxUnschedulable || f.Code == CodeUnschedulable)
}

// revertSandbox returns the agent to the pod that it had before its move into the sandbox. The status stays. The
// failure tells the client why until the next change.
func (a *Agent) revertSandbox(now time.Time) {
	f := Failure{
		Code: CodeSandboxUnschedulable,
		Message: "The agent's cluster does not provide the sandbox. The sandbox was turned off again and the volume " +
			"kept; contact support before you turn it on again.",
	}
	a.Sandbox = false
	a.Failure, a.RevertReason = &f, &f
	a.Lease = Lease{}
	a.replacePod(now)
}

// Break records why a running agent stopped working. It does nothing while a worker has work on the agent: that worker
// decides the outcome.
func (a *Agent) Break(f Failure, now time.Time) {
	if a.Status == Running && a.Converged() {
		a.giveUp(f, now)
	}
}

// SetWarming records whether the dashboard of a running agent may be unavailable because its pod waits for a machine.
// It does nothing while a worker has work on the agent.
func (a *Agent) SetWarming(warming bool, now time.Time) {
	if a.Status == Running && a.Converged() && !a.replacesPod() && a.Warming != warming {
		a.Warming, a.UpdatedAt = warming, now
	}
}

// Recoverable reports whether an agent in error needs only a ready pod in order to run.
func (a Agent) Recoverable() bool {
	left := a.Unfinished()
	return a.Status == Error && a.Converged() && (len(left) == 0 || len(left) == 1 && left[0] == StageReady)
}

// Recover records that the pod of an agent in error became Ready without a worker.
func (a *Agent) Recover(now time.Time) {
	if a.Recoverable() {
		if s := a.stage(StageReady); s != nil && s.Status == StageSucceeded {
			s.Attempt, s.StartedAt = 1, a.UpdatedAt // since the agent broke
		}
		a.EndStage(StageReady, StageSucceeded, now)
		a.BecameReady(now)
		a.proveRotation(now)
	}
}

package provisioning

import (
	"time"

	"agents.example/controlplane/shared/agent"
)

const (
	// disturbance is how long a pod of a running agent may lack its image.
	disturbance = 30 * time.Second
	// Relocation is how long a pod of a running agent may wait for a machine: the cluster first adds one. The agent
	// shows that its dashboard is warming up.
	Relocation = 5 * time.Minute
	// steadyTime is how long a pod must be Ready to count as recovered: three checks of its readiness.
	steadyTime = 15 * time.Second
	// loopTime is the run time above which a container's end is not part of a crash loop: the kubelet then resets its
	// back-off.
	loopTime = 10 * time.Minute
)

// CodeImagePull is the code of an image that can't be fetched.
const CodeImagePull = "image_pull_failed"

// broken returns why the pod of a running agent counts as broken. It returns nil while the pod is Ready or may soon be
// Ready again.
func (p Pod) broken(now time.Time) *PodFailure {
	if p.Failure == nil {
		return nil
	}
	limit := agent.ReadinessTimeout
	switch {
	case p.Failure.Permanent && p.LastRun < loopTime:
		return p.Failure
	case p.Failure.Code == CodeImagePull:
		limit = disturbance
	case p.Failure.Code == agent.CodeUnschedulable:
		limit = Relocation
	}
	if now.Sub(p.Since) < limit {
		return nil
	}
	return p.Failure
}

// waitsForMachine reports whether the pod of a running agent lacks a machine and does not count as broken yet.
func (p Pod) waitsForMachine(now time.Time) bool {
	return p.Failure != nil && p.Failure.Code == agent.CodeUnschedulable && p.broken(now) == nil
}

// overdue reports whether the pod of a running agent has waited too long for a machine, while a worker waits for it.
func (f *PodFailure) overdue(a agent.Agent, now time.Time) bool {
	until := f.relocationEnds(a)
	return !until.IsZero() && !now.Before(until)
}

// relocationEnds is when the pod of a running agent has waited too long for a machine; zero if it waits for none.
func (f *PodFailure) relocationEnds(a agent.Agent) time.Time {
	if a.Status != agent.Running || f.Code != agent.CodeUnschedulable || f.Since.IsZero() {
		return time.Time{}
	}
	return f.Since.Add(Relocation)
}

// steady reports whether the pod has been Ready long enough to count as recovered. A crash-looping pod is Ready between
// crashes, so it must stay Ready for twice as long as it ran the last time.
func (p Pod) steady(now time.Time) bool {
	needed := steadyTime
	if p.LastRun < loopTime {
		needed = max(needed, min(2*p.LastRun, loopTime))
	}
	return p.Failure == nil && now.Sub(p.Since) >= needed
}

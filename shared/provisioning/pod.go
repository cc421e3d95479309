package provisioning

import (
	"time"

	"agents.example/controlplane/shared/agent"
)

const (
	// disturbance is how long a pod of a running agent may lack a machine or its image: as long as it takes to move it
	// from one machine to another that is there.
	disturbance = 30 * time.Second
	// steadyTime is how long a pod has to be Ready to count as mended: three checks of its readiness.
	steadyTime = 15 * time.Second
	// loopTime is how long a container runs at most for its end to be part of a crash loop: then a kubelet forgets its
	// back-off.
	loopTime = 10 * time.Minute
)

// CodeImagePull is the code of an image that can't be fetched.
const CodeImagePull = "image_pull_failed"

// broken is why the pod of a running agent counts as broken; nil while it is Ready, or may be so again in a moment.
func (p Pod) broken(now time.Time) *PodFailure {
	if p.Failure == nil {
		return nil
	}
	patience := agent.ReadinessTimeout
	switch {
	case p.Failure.Permanent && p.LastRun < loopTime:
		return p.Failure
	case p.Failure.Code == CodeImagePull, p.Failure.Code == agent.CodeUnschedulable:
		patience = disturbance
	}
	if now.Sub(p.Since) < patience {
		return nil
	}
	return p.Failure
}

// steady reports whether the pod has been Ready for so long that it can be trusted. One that crashes again and again is
// Ready in between: it has to stay so for twice as long as it lived the last time.
func (p Pod) steady(now time.Time) bool {
	needed := steadyTime
	if p.LastRun < loopTime {
		needed = max(needed, min(2*p.LastRun, loopTime))
	}
	return p.Failure == nil && now.Sub(p.Since) >= needed
}

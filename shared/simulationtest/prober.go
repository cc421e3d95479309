package simulationtest

import (
	"context"
	"errors"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

// Prober is one process's way to agents through their hostnames. It implements provisioning.AgentProber.
type Prober struct {
	Cluster *Cluster
	// Other is another cell; nil if there is none.
	Other   *Cluster
	Process Stepper
	// Failed is told of each agent that did not answer. The fault may be the agent's own.
	Failed func(id string)
}

var _ provisioning.AgentProber = Prober{}

func unhealthy() error {
	return fault.New(fault.Unavailable, "gateway_unhealthy", "The agent does not answer on its hostname yet.")
}

// in is the cell of an agent.
func (p Prober) in(a agent.Agent) *Cluster {
	if p.Other != nil && p.Other.name == a.Cell {
		return p.Other
	}
	return p.Cluster
}

// serving returns the values of the pod that serves, or nil.
func (p Prober) serving(a agent.Agent) map[string]string {
	n := p.in(a).namespaces[a.ID]
	if n == nil || n.pod == nil || !n.pod.ready || !n.stages[agent.StageRoute] {
		return nil
	}
	return n.pod.values
}

// Probe implements provisioning.AgentProber.
func (p Prober) Probe(ctx context.Context, a agent.Agent) error {
	return p.answer(a, p.Process.About(a.ID).Look(ctx, ProberService, "probe", func() error {
		if p.serving(a) == nil {
			return unhealthy()
		}
		return nil
	}))
}

// Accepts implements provisioning.AgentProber.
func (p Prober) Accepts(ctx context.Context, a agent.Agent, c credential.Credentials) (
	verdict provisioning.Verdict, err error,
) {
	err = p.Process.Look(ctx, ProberService, "present credentials", func() error {
		values := p.serving(a)
		if values == nil {
			return unhealthy()
		}
		password, key := values[passwordVariable] == c.DashboardPassword, values[keyVariable] == c.APIKey
		switch {
		case password && key:
			verdict = provisioning.Accepted
		case password || key:
			verdict = provisioning.Divided
		default:
			verdict = provisioning.Refused
		}
		return nil
	})
	return verdict, p.answer(a, err)
}

// Door implements provisioning.AgentProber.
func (p Prober) Door(ctx context.Context, a agent.Agent) (found provisioning.Door, err error) {
	err = p.Process.Look(ctx, ProberService, "ask for the door", func() error {
		if p.serving(a) == nil {
			found.Gone = true
			return nil
		}
		d, now := &p.in(a).namespaces[a.ID].pod.door, p.Cluster.elapsed()
		if d.closed(now) {
			found.Closed, found.Left = d.name, d.until-now
			d.checked = found.Closed == a.Door && found.Left >= dataplane.DoorMargin
		}
		return nil
	})
	return found, portError(err, unhealthy)
}

func (p Prober) answer(a agent.Agent, err error) error {
	var failed *Error
	if errors.As(err, &failed) && failed.Verdict != CrashesBefore && failed.Verdict != CrashesAfter {
		p.Failed(a.ID)
	}
	return portError(err, unhealthy)
}

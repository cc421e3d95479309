package simulationtest

import (
	"context"
	"errors"
	"slices"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

// reader is what a namespace has for exports.
type reader struct {
	// generation is that of the workload, and runs is true while it has a pod.
	generation int64
	runs       bool
	// copies are the ids of the snapshots that were copied.
	copies []string
}

// arrangeExports chooses a schedule with exports of one snapshot.
func arrangeExports(s *Scheduler, u *Setup) {
	*u = Setup{
		Start: []agent.Status{agent.Running, agent.Stopped}[s.Choose(2)], Workers: 2 + s.Choose(2),
		Steps: 150 + s.Choose(250), Faults: s.Choose(3), Stalls: 1 + s.Choose(4), Duplicates: s.Choose(4),
		Ticks: s.Choose(6), Skew: []time.Duration{0, maxSkew}[s.Choose(2)], Twice: s.Choose(2) == 0,
	}
	if late := s.Choose(4); late > 0 { // what takes place late is what exports must bear
		u.Faults, u.FaultRate, u.Verdicts = 3, 0.3, []Verdict{Late}
		if service := ClusterService; late > 1 {
			u.FaultService = &service
		}
	}
	u.Scripts = [][]string{{"snapshot", "export", "export", "export", "export"}}
	actions := []string{"export", "export", "export", "stop", "start", "patch", "delete"}
	for range s.Choose(3) {
		var script []string
		for range 1 + s.Choose(3) {
			script = append(script, actions[s.Choose(len(actions))])
		}
		u.Scripts = append(u.Scripts, script)
	}
}

// export is a client's export of the agent's oldest snapshot, as far as the record tells of it.
func (w *World) export(ctx context.Context, p *Process, c *call) error {
	records := w.records("api", p)
	a, err := records.Load(ctx, c.agentID)
	if err != nil {
		return err
	}
	if len(a.Snapshots) == 0 {
		return agent.SnapshotNotFound()
	}
	update := func(change func(a *agent.Agent)) error {
		for {
			latest, err := records.Update(ctx, a, change)
			if !errors.Is(err, agent.ErrSuperseded) {
				a = latest
				return err
			}
			a = latest
		}
	}
	var refusal error
	id := a.Snapshots[0].ID
	err = update(func(a *agent.Agent) { refusal = a.HoldReader(id, c.name, p.Now()) })
	if err = errors.Join(err, refusal); err != nil {
		return err
	}
	_ = w.publisher(p).Nudge(ctx, c.agentID)
	complete := false
	for range 12 { // it waits for the copy
		if err = p.Look(ctx, ClusterService, "read the copy", func() error {
			n := w.home(c.agentID).namespaces[c.agentID]
			complete = n != nil && n.reader.runs && slices.Contains(n.reader.copies, id)
			return nil
		}); err != nil || complete {
			break
		}
	}
	if err := update(func(a *agent.Agent) { a.ReleaseReader(c.name, 1, complete, p.Now()) }); err != nil {
		return err
	}
	_ = w.publisher(p).Nudge(ctx, c.agentID)
	return portError(err, unreachable)
}

var _ provisioning.Readers = ClusterClient{}

// applyReader makes one call about the workload. As the API server does, it refuses a generation below the present one.
func (c ClusterClient) applyReader(ctx context.Context, a agent.Agent, runs bool) error {
	return c.call(ctx, a, "apply reader", func() error {
		n, err := c.Cluster.find(a.ID)
		if err != nil {
			return err
		}
		if a.Reader.Generation(runs) < n.reader.generation {
			return stale(n.reader.generation)
		}
		n.reader.generation, n.reader.runs = a.Reader.Generation(runs), runs
		return nil
	})
}

// ApplyReader implements provisioning.Readers.
func (c ClusterClient) ApplyReader(ctx context.Context, a agent.Agent, s agent.Snapshot) error {
	c = c.in(a.Cell)
	if err := c.applyReader(ctx, a, true); err != nil {
		return err
	}
	return c.call(ctx, a, "copy a snapshot", func() error {
		n, err := c.Cluster.find(a.ID)
		if err == nil && !slices.Contains(n.reader.copies, s.ID) {
			n.reader.copies = append(slices.Clone(n.reader.copies), s.ID)
		}
		return err
	})
}

// DeleteReader implements provisioning.Readers.
func (c ClusterClient) DeleteReader(ctx context.Context, a agent.Agent, snapshotIDs []string) (bool, error) {
	c = c.in(a.Cell)
	err := c.applyReader(ctx, a, false)
	if fault.Code(err) == provisioning.CodeNamespaceMissing {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	var gone bool
	err = c.call(ctx, a, "delete the copy of a snapshot", func() error {
		n := c.Cluster.namespaces[a.ID]
		if n == nil {
			gone = true
			return nil
		}
		left := slices.DeleteFunc(slices.Clone(n.reader.copies), func(id string) bool {
			return slices.Contains(snapshotIDs, id)
		})
		gone, n.reader.copies = len(left) == len(n.reader.copies), left
		return nil
	})
	return err == nil && gone, err // gone may still be written if the call failed: it happens late
}

// checkExports checks that the record of an agent's reader is not about another one.
func (w *World) checkExports(a *agent.Agent) {
	r, n := a.Reader, w.home(a.ID).namespaces[a.ID]
	if n == nil || n.terminating || r.SnapshotID == "" || w.deletedByHand[a.ID] {
		return
	}
	switch made := r.LookAt.Equal(r.Until); {
	case !r.GoneAt.IsZero() && n.reader.generation == r.Generation(true):
		w.violate("exports", "agent %s has the reader %+v, and its record says that it is gone: %+v", short(a.ID),
			n.reader, r)
	case made && r.Holder != "" && n.reader.generation < r.Generation(true):
		w.violate("exports", "agent %s has the reader %+v, and its record says that it is made: %+v", short(a.ID),
			n.reader, r)
	}
}

// checkExportsAtRest checks that nothing is left of exports.
func (w *World) checkExportsAtRest(a agent.Agent) {
	n := w.home(a.ID).namespaces[a.ID]
	if a.Reader != (agent.Reader{Number: a.Reader.Number}) {
		w.violate("rest", "agent %s keeps a reader: %+v", short(a.ID), a.Reader)
	}
	if n != nil && (n.reader.runs || len(n.reader.copies) > 0) {
		w.violate("leftovers", "agent %s has the reader %+v, and its record %+v", short(a.ID), n.reader, a.Reader)
	}
}

package release

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/parallel"
)

// watch is what a run knows of the agents that a release watches.
type watch struct {
	// agents are all of them, with what the run has changed.
	agents []agent.Agent
	// judged are those about which the run has decided and not written yet.
	judged []judged
	// silent are the ids of those that should long have passed, and do not answer.
	silent []string
}

// awaited says which agents keep the release waiting longer than usual; "" if none does.
func (w *watch) awaited() string {
	if len(w.silent) == 0 {
		return ""
	}
	return fmt.Sprintf("agents that do not answer on their hostnames: %d, such as %s", len(w.silent), w.silent[0])
}

// judged is an agent with the verdict about it.
type judged struct {
	agent   agent.Agent
	verdict verdict
}

// look reads and judges the agents that a release watches.
func (o *Roller) look(ctx context.Context, r Release) (*watch, error) {
	watched, err := o.Agents.ListWatched(ctx, r.ID, maxWatched)
	if err != nil {
		return nil, err
	}
	figures, err := o.loadMetrics(ctx, r.soaked(watched, o.Now()))
	if err != nil {
		return nil, err
	}
	w := &watch{agents: watched}
	if !r.Surveyed && r.Number > 1 {
		former, err := o.Agents.ListWatched(ctx, ID(r.Image, r.Number-1), maxWatched)
		if err != nil {
			return nil, err
		}
		for _, a := range former {
			w.judged = append(w.judged, judged{a, verdict{kind: letGo}})
		}
	}
	var passing []judged
	for _, a := range watched {
		var m *metrics.Snapshot
		if known, ok := figures[a.ID]; ok {
			m = &known
		}
		switch v := r.judge(a, m, o.Now()); {
		case v.kind == countUpdated:
			passing = append(passing, judged{a, v})
		case v.kind != "" && (v.kind != goBack || r.State != Reverting):
			w.judged = append(w.judged, judged{a, v})
		}
	}
	// The record may be a minute old. An agent that does not answer goes on being watched.
	probe := func(j judged) error { return o.Prober.Probe(ctx, j.agent) }
	for i, err := range parallel.ForEach(passing, maxProbes, probe) {
		a := passing[i].agent
		switch ready := a.Software(r.Image).Update.ReadyAt; {
		case err == nil:
			w.judged = append(w.judged, passing[i])
		case o.Now().Sub(ready) >= r.Soak+metricsPatience:
			w.silent = append(w.silent, a.ID)
		}
	}
	return w, nil
}

// soaked returns those of the watched agents whose soak has ended.
func (r Release) soaked(watched []agent.Agent, now time.Time) (found []agent.Agent) {
	for _, a := range watched {
		s := a.Software(r.Image)
		if s != nil && s.Update.State == agent.UpdateSoaking && !now.Before(s.Update.ReadyAt.Add(r.Soak)) {
			found = append(found, a)
		}
	}
	return found
}

// loadMetrics reads the metrics of agents, by their ids.
func (o *Roller) loadMetrics(ctx context.Context, agents []agent.Agent) (map[string]metrics.Snapshot, error) {
	found := map[string]metrics.Snapshot{}
	for some := range slices.Chunk(agents, visitPage) {
		ids := make([]string, len(some))
		for i, a := range some {
			ids[i] = a.ID
		}
		snapshots, err := o.Metrics.Load(ctx, ids)
		if err != nil {
			return nil, err
		}
		maps.Copy(found, snapshots)
	}
	return found, nil
}

// count writes the verdicts about some agents.
func (o *Roller) count(ctx context.Context, r Release, seen *watch) (*Release, error) {
	some := seen.judged[:min(len(seen.judged), MaxChanges)]
	changes := make([]Change, len(some))
	for i, j := range some {
		var err error
		changes[i], err = o.edit(j.agent, func(a *agent.Agent) { r.apply(a, j.verdict, o.Now()) })
		if err != nil {
			return nil, err
		}
	}
	next, err := o.save(ctx, r, changes)
	if err != nil {
		return nil, err
	}
	seen.judged = seen.judged[len(some):]
	for _, c := range changes {
		seen.update(c.After)
	}
	return next, nil
}

// update records what the run has made of an agent.
func (w *watch) update(a agent.Agent) {
	w.agents = slices.DeleteFunc(w.agents, func(other agent.Agent) bool { return other.ID == a.ID })
	if a.WatchedBy != "" {
		w.agents = append(w.agents, a)
	}
}

// moves commits a step that moves agents, and watches them.
func (o *Roller) moves(ctx context.Context, r Release, changes []Change, seen *watch) (*Release, error) {
	next, err := o.save(ctx, r, changes)
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		seen.update(c.After)
	}
	return next, nil
}

// obstacle returns why a release can't go on; "" if it can.
func (o *Roller) obstacle(ctx context.Context, r Release, watched []agent.Agent) (string, error) {
	reverting, stuck := int64(0), 0
	for _, a := range watched {
		s := a.Software(r.Image)
		if s == nil {
			continue
		}
		if s.Update.State == agent.UpdateReverted {
			reverting++
		}
		if a.Status == agent.Error && o.Now().Sub(s.Update.MovedAt) > stuckAfter {
			stuck++
		}
	}
	switch {
	case r.over(reverting):
		return fmt.Sprintf("%d of %d agents went back to their former version, more than %d %%",
			r.Counts.Reverted+reverting, r.Counts.Moved, r.MaxFailed), nil
	case stuck > 0:
		return fmt.Sprintf("%d agents have been in error for more than %s, for reasons of the cluster", stuck,
			stuckAfter), nil
	}
	i, err := o.Images.Get(ctx, r.Image)
	if fault.Is(err, fault.NotFound) && !r.Catalogued {
		return "", nil
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return "", err
	}
	for _, v := range i.Versions {
		if v.Version == r.Target.Version && v.State != image.Withdrawn {
			return "", nil
		}
	}
	return fmt.Sprintf("version %s was withdrawn or removed from the catalog", r.Target.Version), nil
}

// outage names an outage that keeps an agent from moving; "" if there is none. Nothing more moves while it lasts.
func outage(watched []agent.Agent) string {
	for _, a := range watched {
		if a.Failure != nil && a.Failure.Outage {
			return "an outage: " + a.Failure.Code
		}
	}
	return ""
}

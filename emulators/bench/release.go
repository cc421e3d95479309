package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"agents.example/controlplane/infra/gke"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/release"
)

// releaseAgents is how many agents a measured release moves. They share what the release itself writes.
const releaseAgents = 20

// measureRelease counts P22: what Firestore writes for an agent that a release moves, compared with one that its client
// restarts.
func measureRelease(ctx context.Context, l *environment, d *deployment) (Report, error) {
	p, err := newPace(ctx, l, d)
	if err != nil {
		return Report{}, err
	}
	entry := image.Image{ID: image.DefaultID, Name: "Default", DefaultVersion: "1"}
	for n := range 2 {
		entry.Versions = append(entry.Versions, image.Version{
			Version: fmt.Sprint(n + 1), Reference: fmt.Sprintf("registry.example.com/agent@sha256:%064d", n+1),
			State: image.Available,
		})
	}
	if _, err := d.records.Images().Put(ctx, entry); err != nil {
		return Report{}, err
	}
	ids, err := p.createPending(ctx, releaseAgents)
	if err != nil {
		return Report{}, err
	}
	m := newMove(p)
	if err := m.settleAll(ctx, ids); err != nil {
		return Report{}, err
	}
	m.drained()
	if err := m.restartAll(ctx, ids); err != nil {
		return Report{}, err
	}
	restarts := m.drained()
	runs, err := m.releaseTo(ctx, "2", ids)
	if err != nil {
		return Report{}, err
	}
	moved := m.drained()
	each := func(n int64) float64 { return float64(n) / releaseAgents }
	return Report{Rows: []Row{
		{
			ID:    "P22",
			What:  "moving an agent by a release",
			Ours:  each(moved.Writes),
			Limit: each(restarts.Writes) + 3 + snapshotWrites,
			Unit:  "Firestore writes",
			Most:  1,
			Note: fmt.Sprintf("limit: %.1f of a restart, 3, and %d of the snapshot before it; %.1f reads and %.1f "+
				"calls, a restart %.1f and %.1f; %d runs for %d agents", each(restarts.Writes), snapshotWrites,
				each(moved.Reads), each(moved.Calls), each(restarts.Reads), each(restarts.Calls), runs, releaseAgents),
		},
	}}, nil
}

// snapshotWrites is what the snapshot of a move may add. It is asked for by the commit of the move, and recorded
// when it is cut or ready.
const snapshotWrites = 1

// move counts what moving agents costs. A delivery drains the deployment's counter.
type move struct {
	*pace
	spent Tally
}

func newMove(p *pace) *move {
	p.deps.Cluster = &steady{Clusters: p.gke, started: map[string]bool{}}
	return &move{pace: p}
}

// steady is the cluster of agents whose pods are never ready when the worker looks for the first time after it has
// applied them. So what a worker writes does not depend on how fast pods start.
type steady struct {
	*gke.Clusters
	started map[string]bool // by agent
}

// Apply implements provisioning.Cluster.
func (s *steady) Apply(ctx context.Context, a agent.Agent, stage agent.StageName, in provisioning.RuntimeInput) error {
	if stage == agent.StageRuntime {
		s.started[a.ID] = true
	}
	return s.Clusters.Apply(ctx, a, stage, in)
}

// CheckReady implements provisioning.Cluster.
func (s *steady) CheckReady(ctx context.Context, a agent.Agent) error {
	err := s.Clusters.CheckReady(ctx, a)
	if s.started[a.ID] && err == nil {
		err = &provisioning.PodFailure{Code: "readiness_timeout", Message: "The pod has just been applied."}
	}
	delete(s.started, a.ID)
	return err
}

// drained returns what was spent since the last call.
func (p *move) drained() Tally {
	spent := p.spent.plus(p.drain())
	p.spent = Tally{}
	return spent
}

// deliver delivers a nudge to the worker.
func (p *move) deliver(ctx context.Context, nudge function.AgentNudge) error {
	message, err := json.Marshal(nudge)
	if err != nil {
		return err
	}
	p.spent = p.spent.plus(p.drain())
	spent, err := p.countDelivery(ctx, "ReconcileAgent", message)
	p.spent = p.spent.plus(spent)
	return err
}

// settleAll reconciles agents until all of them run what their records say. Further looks at a pod write nothing.
func (p *move) settleAll(ctx context.Context, ids []string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, id := range ids {
		for {
			if err := p.deliver(ctx, function.AgentNudge{AgentID: id}); err != nil {
				return err
			}
			a, err := p.records.WorkerStore().Load(ctx, id)
			if err != nil || a.Status == agent.Running && a.Converged() {
				if err != nil {
					return err
				}
				break
			}
			if err := wait(ctx, 50*time.Millisecond); err != nil {
				return fmt.Errorf("the agent is still %s: %w", a.Status, err)
			}
		}
	}
	return nil
}

// restartAll restarts agents as clients do.
func (p *move) restartAll(ctx context.Context, ids []string) error {
	err := p.changeAll(ctx, ids, func(a *agent.Agent) error {
		return a.Act(agent.Restart, agent.Manual, time.Now().UTC())
	})
	if err != nil {
		return err
	}
	return p.settleAll(ctx, ids)
}

// changeAll changes agents as clients do.
func (p *move) changeAll(ctx context.Context, ids []string, change func(*agent.Agent) error) error {
	for _, id := range ids {
		a, err := p.records.WorkerStore().Load(ctx, id)
		if err != nil {
			return err
		}
		on := call.As(ctx, identity.Caller{
			Type: identity.Session, ID: "user", OrganizationID: a.OrganizationID, Role: identity.RoleAdmin,
		})
		if _, err := p.deps.Agents.Change(on, id, change); err != nil {
			return err
		}
	}
	return nil
}

// releaseTo moves agents to a version, and returns how many runs of the worker that took.
func (p *move) releaseTo(ctx context.Context, version string, ids []string) (runs int, err error) {
	catalog, err := p.records.Images().Images(ctx)
	if err != nil {
		return 0, err
	}
	r, err := release.New(
		release.Order{Image: image.DefaultID, Version: version, Waves: release.DefaultWaves()},
		catalog,
		nil,
		time.Now().UTC(),
	)
	if err != nil {
		return 0, err
	}
	if r, err = p.records.Releases().Create(ctx, r); err != nil {
		return 0, err
	}
	worker := &release.Roller{
		Releases: p.records.Releases(), Agents: p.records.WorkerStore(), Images: p.records.Images(),
		Metrics: p.records.Metrics(), Prober: p.deps.Prober, Nudger: p.deps.Nudger, Now: time.Now,
	}
	for r.State == release.Running {
		if err := worker.Run(ctx); err != nil {
			return runs, err
		}
		var moving []string
		for _, id := range ids {
			a, err := p.records.WorkerStore().Load(ctx, id)
			if err != nil {
				return runs, err
			}
			if !a.Converged() {
				moving = append(moving, id)
			}
		}
		if err := p.settleAll(ctx, moving); err != nil {
			return runs, err
		}
		if r, err = p.records.Releases().Get(ctx, r.ID); err != nil {
			return runs, err
		}
		runs++
	}
	if r.State != release.Done {
		return runs, fmt.Errorf("the release is %s: %s", r.State, r.Reason)
	}
	return runs, nil
}

// sleepers is how many agents fall asleep.
const sleepers = 5

// measureSleep counts P23: what Firestore writes for an agent that falls asleep and is woken by a request, compared
// with one that its client pauses and resumes.
func measureSleep(ctx context.Context, l *environment, d *deployment) (Report, error) {
	p, err := newPace(ctx, l, d)
	if err != nil {
		return Report{}, err
	}
	ids, err := p.createPending(ctx, sleepers)
	if err != nil {
		return Report{}, err
	}
	m := newMove(p)
	err = m.changeAll(ctx, ids, func(a *agent.Agent) error {
		return a.Apply(agent.Patch{Sleep: func(agent.SleepPolicy) agent.SleepPolicy {
			return agent.SleepPolicy{AfterSeconds: agent.MinSleepSeconds, WakeOn: []agent.Waker{agent.RequestWakes}}
		}}, time.Now().UTC())
	})
	if err == nil {
		err = m.settleAll(ctx, ids)
	}
	if err != nil {
		return Report{}, err
	}
	d.drain()
	paused, err := m.rest(ctx, ids, agent.Pause)
	if err != nil {
		return Report{}, err
	}
	slept, err := m.rest(ctx, ids, "")
	if err != nil {
		return Report{}, err
	}
	each := func(n int64) float64 { return float64(n) / sleepers }
	return Report{Rows: []Row{{
		ID: "P23", What: "falling asleep and waking",
		Ours: each(slept.Writes), Limit: each(paused.Writes),
		Unit: "Firestore writes", Most: 1,
		Note: fmt.Sprintf("limit: those of pause and resume; %.1f reads, a pause and a resume %.1f", each(slept.Reads),
			each(paused.Reads)),
	}}}, nil
}

// rest takes the pods of agents and starts them again: by calls of their clients, or without a trigger as fronts and
// the router do. It returns what was spent.
func (p *move) rest(ctx context.Context, ids []string, t agent.Trigger) (Tally, error) {
	p.drained()
	err := p.changeAll(ctx, ids, func(a *agent.Agent) error {
		if t == "" {
			return a.FallAsleep("door", time.Now().UTC())
		}
		return a.Act(t, agent.Manual, time.Now().UTC())
	})
	if err != nil {
		return Tally{}, err
	}
	for _, id := range ids {
		if err := p.deliver(ctx, function.AgentNudge{AgentID: id}); err != nil {
			return Tally{}, err
		}
	}
	if t != "" {
		err = p.changeAll(ctx, ids, func(a *agent.Agent) error {
			return a.Act(agent.Resume, agent.Manual, time.Now().UTC())
		})
	}
	for _, id := range ids {
		if err == nil && t == "" {
			err = p.deliver(ctx, function.AgentNudge{AgentID: id, Wake: true})
		}
	}
	if err == nil {
		err = p.settleAll(ctx, ids)
	}
	return p.drained(), err
}

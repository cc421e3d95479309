package provisioning_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

// observedAt is when the observer looks.
var observedAt = time.Date(2026, time.May, 6, 7, 8, 9, 0, time.UTC)

const (
	own   = "3fa85f64-5717-4562-b3fc-2c963f66afa6" // the agent that a test is about
	other = "0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90" // one of the same cell, which is well
)

var errDown = fault.New(fault.Unavailable, "down", "It is down.")

// scene is what an observer sees and writes: records, clusters, a gateway and a queue. It keeps the promises of the
// ports and no others, and remembers the calls that are about one agent.
type scene struct {
	mu     sync.Mutex
	agents map[string]*agent.Agent
	pods   map[string][]provisioning.Pod // by cell
	// presence is what there is of an agent; of one that isn't named there is everything.
	presence map[string]provisioning.Existence
	// former are the agents whose pod is of a configuration that is not the present one any more.
	former map[string]bool
	// down has what is named here fail: "pods <cell>", or one of "load", "record", "list running", "list error",
	// "presence", "probe", "nudge".
	down map[string]bool
	// meanwhile happens to an agent once, between its being read and its being written.
	meanwhile func(*agent.Agent)
	// mutant plants a defect in what the observer relies on.
	mutant string

	calls []string
	limit int // the most that a list was asked for
}

// newScene is a world in which two agents run and are well.
func newScene() *scene {
	s := &scene{
		agents:   map[string]*agent.Agent{},
		pods:     map[string][]provisioning.Pod{"cell-1": {readyPod(other, time.Hour)}, "cell-2": nil},
		presence: map[string]provisioning.Existence{}, former: map[string]bool{}, down: map[string]bool{},
	}
	s.add(runningAgent(own))
	s.add(runningAgent(other))
	return s
}

func (s *scene) add(a agent.Agent) { s.agents[a.ID] = &a }

func (s *scene) observer() *provisioning.HealthController {
	return &provisioning.HealthController{
		Records: sceneRecords{s}, Pods: sceneLookout{s}, Prober: sceneGateway{scene: s}, Nudger: sceneQueue{s},
		Now: func() time.Time { return observedAt },
	}
}

// called are the calls about one agent, in their order.
func (s *scene) called(id string) string {
	var calls []string
	for _, c := range s.calls {
		if name, about, _ := strings.Cut(c, " "); about == id {
			calls = append(calls, name)
		}
	}
	return strings.Join(calls, " ")
}

// call remembers a call, and fails if that is down.
func (s *scene) call(name, about string) error {
	s.calls = append(s.calls, name+" "+about)
	if s.down[name] || s.down[name+" "+about] {
		return errDown
	}
	return nil
}

// runningAgent has been running for an hour.
func runningAgent(id string) agent.Agent {
	a := agent.New(id, "cell-1", agent.Draft{Name: "a", Plan: "pro"}, observedAt.Add(-2*time.Hour))
	for _, name := range agent.StageNames() {
		a.BeginStage(name, observedAt.Add(-2*time.Hour))
		a.EndStage(name, agent.StageSucceeded, observedAt.Add(-time.Hour))
	}
	a.BecameReady(observedAt.Add(-time.Hour))
	return a
}

// failedAt is an agent that failed a while ago at a stage, or, with "", while it was running.
func failedAt(id string, stage agent.StageName) agent.Agent {
	a, f := runningAgent(id), agent.Failure{Code: "pod_crash_loop", Stage: stage, Message: "It crashed."}
	if stage == "" {
		a.Break(f, observedAt.Add(-30*time.Minute))
		return a
	}
	_ = a.Act(agent.Stop, agent.Manual, observedAt.Add(-time.Hour))
	_ = a.Act(agent.Start, "", observedAt.Add(-time.Hour))
	for _, name := range agent.StageNames() {
		if name == stage {
			break
		}
		a.EndStage(name, agent.StageSucceeded, observedAt.Add(-time.Hour))
	}
	a.GiveUp(f, observedAt.Add(-30*time.Minute))
	return a
}

func readyPod(id string, since time.Duration) provisioning.Pod {
	return provisioning.Pod{AgentID: id, Config: "config", Since: observedAt.Add(-since)}
}

// brokenPod is not Ready for a time.
func brokenPod(code string, permanent bool, since, lastRun time.Duration) provisioning.Pod {
	p := readyPod(own, since)
	p.LastRun = lastRun
	p.Failure = &provisioning.PodFailure{Code: code, Permanent: permanent, Message: "What happened, and what to do."}
	return p
}

// sceneRecords is the scene as agent.Records.
type sceneRecords struct{ *scene }

func (s sceneRecords) Load(_ context.Context, id string) (agent.Agent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.call("load", id)
	a, there := s.agents[id]
	switch {
	case err != nil:
		return agent.Agent{}, err
	case !there:
		return agent.Agent{}, agent.NotFound()
	}
	return clone(*a), nil
}

func (s sceneRecords) Update(_ context.Context, a agent.Agent, change func(*agent.Agent)) (agent.Agent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.call("record", a.ID)
	present, there := s.agents[a.ID]
	if there && s.meanwhile != nil {
		s.meanwhile(present)
		s.meanwhile = nil
		there = present.Status != agent.Deleting // and gone by now
	}
	switch {
	case err != nil:
		return a, err
	case !there:
		delete(s.agents, a.ID)
		return a, agent.NotFound()
	case s.mutant == "unguarded write":
		change(&a)
		*present = a
		return a, nil
	case present.Generation != a.Generation:
		return clone(*present), agent.ErrSuperseded
	}
	change(present)
	return clone(*present), nil
}

func (sceneRecords) Remove(context.Context, agent.Agent) error {
	return errors.New("an observer removes nothing")
}

func (sceneRecords) ListDue(context.Context, time.Time, int) ([]agent.Agent, error) {
	return nil, errors.New("an observer asks for nothing that is due")
}

func (s sceneRecords) ListByStatus(_ context.Context, status agent.Status, after string, limit int) ([]agent.Agent,
	error,
) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = max(s.limit, limit)
	if s.down["list "+string(status)] {
		return nil, errDown
	}
	var found []agent.Agent
	for _, a := range s.agents {
		if a.Status == status && a.ID > after {
			found = append(found, clone(*a))
		}
	}
	slices.SortFunc(found, func(a, b agent.Agent) int { return cmp.Compare(a.ID, b.ID) })
	return found[:min(len(found), limit)], nil
}

// sceneLookout is the scene as provisioning.Lookout.
type sceneLookout struct{ *scene }

func (s sceneLookout) Cells() []string { return []string{"cell-1", "cell-2"} }

func (s sceneLookout) Pods(_ context.Context, cell string) ([]provisioning.Pod, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down["pods "+cell] {
		if s.mutant == "partial list" {
			return s.pods[cell][:len(s.pods[cell])/2], nil
		}
		return nil, errDown
	}
	return s.pods[cell], nil
}

func (s sceneLookout) Current(a agent.Agent, _ provisioning.Pod) bool {
	return !s.former[a.ID] || s.mutant == "any pod is current"
}

func (s sceneLookout) Existence(_ context.Context, a agent.Agent) (provisioning.Existence, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.call("presence", a.ID); err != nil && s.mutant != "unknown is absent" {
		return provisioning.Existence{}, err
	}
	if p, named := s.presence[a.ID]; named {
		return p, nil
	}
	return provisioning.Existence{Namespace: true, Pod: true}, nil
}

// sceneGateway is the scene as provisioning.Gateway.
type sceneGateway struct {
	provisioning.AgentProber // what an observer does not ask for
	*scene
}

func (s sceneGateway) Probe(_ context.Context, a agent.Agent) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.call("probe", a.ID); s.mutant != "a gateway that always answers" {
		return err
	}
	return nil
}

// sceneQueue is the scene as agent.Nudger.
type sceneQueue struct{ *scene }

func (s sceneQueue) Nudge(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.call("nudge", id)
}

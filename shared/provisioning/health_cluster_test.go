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
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/provisioning"
)

// checkedAt is the time of the health check.
var checkedAt = time.Date(2026, time.May, 6, 7, 8, 9, 0, time.UTC)

const (
	own   = "3fa85f64-5717-4562-b3fc-2c963f66afa6" // the agent under test
	other = "0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90" // a healthy agent of the same cell
)

var errDown = fault.New(fault.Unavailable, "down", "It is down.")

// healthFixture simulates what a HealthController reads and writes: records, clusters, agents and a queue. It keeps
// only the promises of the ports, and records the calls about each agent.
type healthFixture struct {
	mu     sync.Mutex
	agents map[string]*agent.Agent
	pods   map[string][]provisioning.Pod // by cell
	// existence says which objects of an agent exist. For other agents, all of them exist.
	existence map[string]provisioning.Existence
	// former holds the agents whose pod has a former configuration.
	former map[string]bool
	// failing holds the calls that fail: "pods <cell>", or one of "load", "update", "list running", "list error",
	// "existence", "probe", "nudge".
	failing map[string]bool
	// concurrently changes an agent once, between the controller's read and its write.
	concurrently func(*agent.Agent)
	// mutant names a defect to plant in a port.
	mutant string

	calls []string
	limit int // the largest limit of a list
}

// newHealthFixture has two healthy running agents.
func newHealthFixture() *healthFixture {
	s := &healthFixture{
		agents:    map[string]*agent.Agent{},
		pods:      map[string][]provisioning.Pod{"cell-1": {readyPod(other, time.Hour)}, "cell-2": nil},
		existence: map[string]provisioning.Existence{}, former: map[string]bool{}, failing: map[string]bool{},
	}
	s.add(runningAgent(own))
	s.add(runningAgent(other))
	return s
}

func (s *healthFixture) add(a agent.Agent) { s.agents[a.ID] = &a }

func (s *healthFixture) controller() *provisioning.HealthController {
	return &provisioning.HealthController{
		Records: fixtureRecords{s}, Pods: fixturePods{s}, Prober: fixtureProber{healthFixture: s},
		Nudger: fixtureQueue{s},
		Now:    func() time.Time { return checkedAt },
	}
}

// callsAbout lists the calls about one agent, in order.
func (s *healthFixture) callsAbout(id string) string {
	var calls []string
	for _, c := range s.calls {
		if name, about, _ := strings.Cut(c, " "); about == id {
			calls = append(calls, name)
		}
	}
	return strings.Join(calls, " ")
}

// call records a call, and returns its error if it is failing.
func (s *healthFixture) call(name, about string) error {
	s.calls = append(s.calls, name+" "+about)
	if s.failing[name] || s.failing[name+" "+about] {
		return errDown
	}
	return nil
}

// runningAgent has been running for an hour.
func runningAgent(id string) agent.Agent {
	a := agent.New(id, "cell-1", agent.Draft{Name: "a", Plan: "pro"}, checkedAt.Add(-2*time.Hour))
	for _, name := range agent.StageNames() {
		a.BeginStage(name, checkedAt.Add(-2*time.Hour))
		a.EndStage(name, agent.StageSucceeded, checkedAt.Add(-time.Hour))
	}
	a.BecameReady(checkedAt.Add(-time.Hour))
	return a
}

// failedAt is an agent that failed half an hour ago at a stage, or with "" at run time.
func failedAt(id string, stage agent.StageName) agent.Agent {
	a, f := runningAgent(id), agent.Failure{Code: "pod_crash_loop", Stage: stage, Message: "It crashed."}
	if stage == "" {
		a.Break(f, checkedAt.Add(-30*time.Minute))
		return a
	}
	_ = a.Act(agent.Stop, agent.Manual, checkedAt.Add(-time.Hour))
	_ = a.Act(agent.Start, "", checkedAt.Add(-time.Hour))
	for _, name := range agent.StageNames() {
		if name == stage {
			break
		}
		a.EndStage(name, agent.StageSucceeded, checkedAt.Add(-time.Hour))
	}
	a.GiveUp(f, checkedAt.Add(-30*time.Minute))
	return a
}

func readyPod(id string, since time.Duration) provisioning.Pod {
	return provisioning.Pod{AgentID: id, Config: "config", Since: checkedAt.Add(-since)}
}

// brokenPod has not been Ready since a time.
func brokenPod(code string, permanent bool, since, lastRun time.Duration) provisioning.Pod {
	p := readyPod(own, since)
	p.LastRun = lastRun
	p.Failure = &provisioning.PodFailure{Code: code, Permanent: permanent, Message: "What happened, and what to do."}
	return p
}

// fixtureRecords implements agent.WorkerStore.
type fixtureRecords struct{ *healthFixture }

func (s fixtureRecords) Load(_ context.Context, id string) (agent.Agent, error) {
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

func (s fixtureRecords) Update(_ context.Context, a agent.Agent, change func(*agent.Agent)) (agent.Agent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.call("update", a.ID)
	present, there := s.agents[a.ID]
	if there && s.concurrently != nil {
		s.concurrently(present)
		s.concurrently = nil
		there = present.Status != agent.Deleting // a worker has removed it by now
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

func (fixtureRecords) Remove(context.Context, agent.Agent) error {
	return errors.New("a HealthController must not remove agents")
}

func (fixtureRecords) ListDue(context.Context, time.Time, int) ([]agent.Agent, error) {
	return nil, errors.New("a HealthController must not list due agents")
}

func (s fixtureRecords) ListByStatus(_ context.Context, status agent.Status, after string, limit int) (
	p page.Page[agent.Agent], err error,
) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = max(s.limit, limit)
	if s.failing["list "+string(status)] {
		return p, errDown
	}
	var found []agent.Agent
	for _, a := range s.agents {
		if a.Status == status && a.ID > after {
			found = append(found, clone(*a))
		}
	}
	slices.SortFunc(found, func(a, b agent.Agent) int { return cmp.Compare(a.ID, b.ID) })
	p.Items = found[:min(len(found), limit)]
	if len(found) >= limit {
		p.Next = found[limit-1].ID
	}
	return p, nil
}

// fixturePods implements provisioning.PodLister.
type fixturePods struct{ *healthFixture }

func (s fixturePods) Cells() []string { return []string{"cell-1", "cell-2"} }

func (s fixturePods) Pods(_ context.Context, cell string) ([]provisioning.Pod, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing["pods "+cell] {
		if s.mutant == "partial list" {
			return s.pods[cell][:len(s.pods[cell])/2], nil
		}
		return nil, errDown
	}
	return s.pods[cell], nil
}

func (s fixturePods) Current(a agent.Agent, _ provisioning.Pod) bool {
	return !s.former[a.ID] || s.mutant == "any pod is current"
}

func (s fixturePods) Existence(_ context.Context, a agent.Agent) (provisioning.Existence, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.call("existence", a.ID); err != nil && s.mutant != "unknown is absent" {
		return provisioning.Existence{}, err
	}
	if e, ok := s.existence[a.ID]; ok {
		return e, nil
	}
	return provisioning.Existence{Namespace: true, Pod: true}, nil
}

// fixtureProber implements the part of provisioning.AgentProber that a HealthController uses.
type fixtureProber struct {
	provisioning.AgentProber
	*healthFixture
}

func (s fixtureProber) Probe(_ context.Context, a agent.Agent) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.call("probe", a.ID); s.mutant != "probe always succeeds" {
		return err
	}
	return nil
}

// fixtureQueue implements agent.Nudger.
type fixtureQueue struct{ *healthFixture }

func (s fixtureQueue) Nudge(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.call("nudge", id)
}

// clone copies what a closure may change in place.
func clone(a agent.Agent) agent.Agent {
	a.Stages, a.Env, a.Operations = slices.Clone(a.Stages), slices.Clone(a.Env), slices.Clone(a.Operations)
	if a.Failure != nil {
		f := *a.Failure
		a.Failure = &f
	}
	return a
}

package provisioning_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/simulationtest"
)

// checkedAt is the time of the health check.
var checkedAt = time.Date(2026, time.May, 6, 7, 8, 9, 0, time.UTC)

const (
	own   = "3fa85f64-5717-4562-b3fc-2c963f66afa6" // the agent under test
	other = "0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90" // a healthy agent of the same cell
)

var errDown = fault.New(fault.Unavailable, "down", "It is down.")

// healthFixture is what a HealthController reads and writes: the records of a simulated database, and clusters, agents
// and a queue, which say what a test wants. It records the calls about each agent.
type healthFixture struct {
	database *simulationtest.Database
	process  *simulationtest.Direct
	mu       sync.Mutex                    // guards all below
	pods     map[string][]provisioning.Pod // by cell
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
		database: simulationtest.NewDatabase(), process: &simulationtest.Direct{},
		pods:      map[string][]provisioning.Pod{"cell-1": {readyPod(other, time.Hour)}, "cell-2": nil},
		existence: map[string]provisioning.Existence{}, former: map[string]bool{}, failing: map[string]bool{},
	}
	s.add(runningAgent(own))
	s.add(runningAgent(other))
	return s
}

func (s *healthFixture) records() simulationtest.WorkerStore {
	return simulationtest.WorkerStore{Database: s.database, Process: s.process}
}

// add adds the record of an agent, or replaces it. Each has a separate organization.
func (s *healthFixture) add(a agent.Agent) {
	if s.find(a.ID).ID != "" {
		s.remove(a.ID)
	}
	ctx := call.As(context.Background(), identity.Caller{Type: identity.System, OrganizationID: a.ID})
	s.database.SetPlan(a.ID, plan.Pro)
	if _, err := (simulationtest.Agents{Database: s.database, Process: s.process}).Create(ctx, a); err != nil {
		panic(err) // the fixture is wrong
	}
}

// find returns the present record of an agent; the zero agent if there is none.
func (s *healthFixture) find(id string) agent.Agent {
	a, err := s.records().Load(context.Background(), id)
	if err != nil {
		return agent.Agent{}
	}
	return a
}

// change changes the record of an agent, as something else than the controller.
func (s *healthFixture) change(id string, change func(*agent.Agent)) {
	_, _ = s.records().Update(context.Background(), s.find(id), change)
}

func (s *healthFixture) remove(id string) {
	_ = s.records().Remove(context.Background(), s.find(id), agent.Deletion{})
}

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

// locked is call, for a caller that does not hold the lock.
func (s *healthFixture) locked(name, about string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.call(name, about)
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
	a, _, _ = a.Edit(func(a *agent.Agent) error { a.BecameReady(checkedAt.Add(-time.Hour)); return nil }, nil)
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
	p.Failure = &provisioning.PodFailure{
		Code: code, Permanent: permanent, Message: "What happened, and what to do.",
		Observed: agent.Observation{Reason: "Reported"},
	}
	return p
}

// fixtureRecords implements agent.WorkerStore.
type fixtureRecords struct{ *healthFixture }

func (s fixtureRecords) Load(ctx context.Context, id string) (agent.Agent, error) {
	if err := s.locked("load", id); err != nil {
		return agent.Agent{}, err
	}
	return s.records().Load(ctx, id)
}

func (s fixtureRecords) Update(ctx context.Context, a agent.Agent, change func(*agent.Agent)) (agent.Agent, error) {
	err := s.locked("update", a.ID)
	s.mu.Lock()
	between := s.concurrently
	s.concurrently = nil
	s.mu.Unlock()
	if between != nil {
		s.change(a.ID, between)
		if s.find(a.ID).Status == agent.Deleting { // a worker has removed it by now
			s.remove(a.ID)
		}
	}
	if err != nil {
		return a, err
	}
	present, err := s.records().Update(ctx, a, change)
	if s.mutant == "unguarded write" && errors.Is(err, agent.ErrSuperseded) {
		return s.records().Update(ctx, present, change)
	}
	return present, err
}

func (fixtureRecords) Remove(context.Context, agent.Agent, agent.Deletion) error {
	return errors.New("a HealthController must not remove agents")
}

func (fixtureRecords) ListDue(context.Context, time.Time, int) ([]agent.Agent, error) {
	return nil, errors.New("a HealthController must not list due agents")
}

func (fixtureRecords) ListCallsDue(context.Context, time.Time, int) ([]agent.Agent, error) {
	return nil, errors.New("a HealthController must not list due agents")
}

func (s fixtureRecords) ListByStatus(ctx context.Context, status agent.Status, after string, limit int) (
	page.Page[agent.Agent], error,
) {
	s.mu.Lock()
	s.limit = max(s.limit, limit)
	fails := s.failing["list "+string(status)]
	s.mu.Unlock()
	if fails {
		return page.Page[agent.Agent]{}, errDown
	}
	return s.records().ListByStatus(ctx, status, after, limit)
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

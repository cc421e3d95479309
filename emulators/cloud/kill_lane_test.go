package cloud_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/plan"
)

// lanes is a cloud whose functions run in this process, except those of lanes. Nothing runs on a schedule.
type lanes struct {
	deployment
	records records

	mu     sync.Mutex
	of     map[string]*lane // by organization
	agents map[string]*lane // by agent: its last messages come when it is gone
}

// lane is an organization with a separate worker and API, which the test kills.
type lane struct {
	deployment // with the organization's API key
	*deliveries
	records records
	t       *testing.T
	worker  *victim
	api     *victim
	// runs is locked for reading while a worker runs.
	runs sync.RWMutex
	overlap
	// firstCredentials is how many versions the creation of the present agent added.
	firstCredentials int
	// snapshot is the present agent's snapshot.
	snapshot string
}

// overlap counts the runs of a worker that go on concurrently: the sweep may repeat a nudge that is under way.
type overlap struct {
	mu              sync.Mutex
	running, widest int
}

func (o *overlap) run(work func()) {
	o.mu.Lock()
	o.running++
	o.widest = max(o.widest, o.running)
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		o.running--
		o.mu.Unlock()
	}()
	work()
}

// takeWidest returns the largest number of concurrent runs since it was called last.
func (o *overlap) takeWidest() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	widest := o.widest
	o.widest = o.running
	return widest
}

func startLanes(t *testing.T) *lanes {
	t.Helper()
	l := &lanes{of: map[string]*lane{}, agents: map[string]*lane{}}
	l.deployment = start(t, false, func(o *cloud.Options) { o.NoSchedule, o.Wrap = true, l.route })
	l.records = openRecords(t, l.Cloud)
	if l.binaries = *binaries; l.binaries == "" {
		var err error
		if l.binaries, err = cloud.BuildFunctions(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// openLane starts the processes of a new organization.
func (l *lanes) openLane(t *testing.T, organization string) *lane {
	t.Helper()
	own := *l.Cloud
	_, key, err := l.AddOrganization(t.Context(), organization, plan.Enterprise)
	if err != nil {
		t.Fatal(err)
	}
	own.Ready.OrganizationID, own.Ready.APIKey = organization, key
	n := &lane{deployment: l.deployment, deliveries: newDeliveries(), records: l.records, t: t}
	n.Cloud, n.retry = &own, n.retryBy(n.records, n.sweep)
	n.worker = startVictim(t, l.deployment, string(function.RoleWorker), "ReconcileAgent")
	n.worker.beforeRestart = func(ctx context.Context) error {
		return n.records.age(ctx, organization, agent.LeaseTime) // the lease of a dead worker ends
	}
	n.api = startVictim(t, l.deployment, string(function.RoleAPI), "")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of[organization] = n
	return n
}

// route passes the pushes about agents of lanes to the lane's worker.
func (l *lanes) route(functions http.Handler) http.Handler {
	return routeNudges(functions, func(w http.ResponseWriter, r *http.Request, p push) {
		n, err := l.laneOf(r.Context(), p.agentID)
		switch {
		case err != nil:
			w.WriteHeader(http.StatusServiceUnavailable)
		case n == nil:
			functions.ServeHTTP(w, r)
		default:
			n.track(w, r, p, n.forward)
		}
	})
}

// laneOf returns the lane of an agent; nil if it belongs to none.
func (l *lanes) laneOf(ctx context.Context, agentID string) (*lane, error) {
	l.mu.Lock()
	known := l.agents[agentID]
	l.mu.Unlock()
	if known != nil {
		return known, nil
	}
	a, err := l.records.agent(ctx, agentID)
	if err != nil {
		return nil, err
	}
	organization, _ := a["organization_id"].(string)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.agents[agentID] = l.of[organization]
	return l.of[organization], nil
}

// forward passes a push to the worker as soon as it serves.
func (n *lane) forward(w http.ResponseWriter, r *http.Request) {
	if err := n.worker.await(r.Context()); err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	n.runs.RLock()
	defer n.runs.RUnlock()
	n.run(func() { n.worker.proxy.ServeHTTP(w, r) })
}

// age makes the agents of the lane older, while no worker runs.
func (n *lane) age(t *testing.T, by time.Duration) {
	t.Helper()
	n.runs.Lock()
	defer n.runs.Unlock()
	n.ageIdle(t, by)
}

func (n *lane) ageIdle(t *testing.T, by time.Duration) {
	t.Helper()
	if err := n.records.age(t.Context(), n.Ready.OrganizationID, by); err != nil {
		t.Fatal(err)
	}
	n.Secrets.Advance(by)
}

// sweep sweeps when the grace of lost nudges is over.
func (n *lane) sweep(t *testing.T) {
	t.Helper()
	n.runs.Lock()
	defer n.runs.Unlock()
	n.ageIdle(t, agent.NudgeGrace)
	n.tick(t, "SweepAgents")
}

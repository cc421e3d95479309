//go:build unix

package linearizability_test

import (
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/testtier"
)

const (
	organization = "org-1"
	clients      = 8
	// shared is how many agents the clients use at any time. Few agents make many conflicts.
	shared = 6
	// patience bounds the check of a history. A check that takes longer has no result, which is a failure.
	patience = 2 * time.Minute
)

// history records the operations of all clients.
type history struct {
	t     *testing.T
	spec  specification
	url   string
	token string
	store agent.WorkerStore
	start time.Time

	mu         sync.Mutex
	operations []porcupine.Operation
	agents     []string // all that were created, the newest last
}

func (h *history) now() int64 { return time.Since(h.start).Nanoseconds() }

// record adds an operation. One with an unknown outcome may take effect at any later time.
func (h *history) record(client int, c call, a answer, began int64) {
	ended := h.now()
	if a.code == 0 {
		ended = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations,
		porcupine.Operation{ClientId: client, Input: c, Output: a, Call: began, Return: ended})
}

func (h *history) created(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.agents = append(h.agents, id)
}

func (h *history) known() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.agents)
}

// check looks for an order of all operations that the specification allows.
func (h *history) check() (porcupine.CheckResult, porcupine.LinearizationInfo) {
	end := h.now()
	for i := range h.operations {
		h.operations[i].Return = min(h.operations[i].Return, end)
	}
	return porcupine.CheckOperationsVerbose(h.spec.model(), h.operations, patience)
}

// world is what clients call in one test.
type world struct {
	// wrap and store plant defects: around the API, and around the store behind the routes.
	wrap  func(http.Handler) http.Handler
	store func(agent.Store) agent.Store
	// workers reconciles agents concurrently with the clients, on a cluster that reaches every state immediately.
	// Without it, the clients also make the changes that a worker would make.
	workers bool
	// faults makes some commits of routes fail, or lose their answers.
	faults bool
	count  int
}

// run lets the clients make operations, and returns their history.
func (w world) run(t *testing.T) *history {
	t.Helper()
	queue := newQueue()
	b := backendtest.NewWith(t, backendtest.Options{FirestoreHost: firestoreHost, Nudger: queue})
	b.SetPlan(t, organization, plan.Enterprise)
	h := &history{
		t: t, spec: specification{workers: w.workers}, token: functiontest.AdminToken(organization),
		store: b.WorkerStore, start: time.Now(),
	}
	if w.faults {
		w.store = openLossyStore(t, b.ProjectID, queue)
	}
	handler, err := functions.Handler(functions.Selection{},
		func(needs []function.Need) (functions.Dependencies, error) {
			d, err := b.Open(needs)
			if w.store != nil && d.Agents != nil {
				d.Agents = w.store(d.Agents)
			}
			return d, err
		},
		functions.Guards{Guard: b.Guard, Push: func(function.Worker) function.PushVerifier { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if w.wrap != nil {
		handler = w.wrap(handler)
	}
	server := functiontest.Serve(t, handler)
	h.url = server.URL
	if w.workers {
		stop := queue.work(t, b)
		defer stop()
	}
	var running sync.WaitGroup
	for n := range clients {
		running.Go(func() { h.runClient(n, w.count/clients) })
	}
	running.Wait()
	return h
}

func (h *history) runClient(number, count int) {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c := &client{
		history: h, number: number, random: rand.New(rand.NewPCG(1, uint64(number))),
		http: &http.Client{Transport: transport}, seen: map[string]int64{},
	}
	for range count {
		c.operate()
	}
}

// operate makes one operation about one of the newest agents.
func (c *client) operate() {
	known := c.known()
	if len(known) == 0 {
		c.create()
		return
	}
	known = known[max(0, len(known)-shared):]
	id := known[c.random.IntN(len(known))]
	actions := []agent.Trigger{agent.Stop, agent.Start, agent.Pause, agent.Resume, agent.Restart}
	switch n := c.random.IntN(100); {
	case n < 25:
		c.get(id)
	case n < 42:
		c.patch(id, 100)
	case n < 54:
		c.patch(id, 0)
	case n < 72:
		c.act(id, actions[c.random.IntN(len(actions))])
	case n < 82:
		c.changeSecret(id)
	case n < 84:
		c.act(id, agent.Delete)
	case n < 86:
		c.replace(known[0])
	case n < 87:
		c.list()
	case c.spec.workers:
		c.get(id)
	default:
		c.workOn(id)
	}
}

// replace deletes the oldest agent that the clients use, which takes it out of use, and creates another.
func (c *client) replace(oldest string) {
	c.act(oldest, agent.Delete)
	c.create()
}

// TestAgents_AreLinearizable runs clients that read, change, start, stop and delete the same agents, and sometimes
// disconnect before they get the answer.
func TestAgents_AreLinearizable(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]world{
		"without workers": {count: operations(t, 5000)},
		"with workers":    {count: operations(t, 1500), workers: true},
		"with faults":     {count: operations(t, 2000), faults: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := w.run(t)
			began := time.Now()
			result, info := h.check()
			t.Logf("%d operations on %d agents: checked in %v", len(h.operations), len(h.agents), time.Since(began))
			if missing := h.unseen(); len(missing) > 0 && testtier.IsFull(t) {
				t.Errorf("no operation was answered with %v", missing)
			}
			if result != porcupine.Ok {
				t.Errorf("the check of %d operations is %q, want %q; the history is in %s\n%s", len(h.operations),
					result, porcupine.Ok, draw(t, h.spec.model(), info), h.explain(info))
			}
		})
	}
}

// unseen lists the outcomes that no operation had. A history without conflicts proves little.
func (h *history) unseen() []int {
	const unknown = 0
	wanted := []int{
		unknown, http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNotModified, http.StatusNotFound,
		http.StatusConflict, http.StatusPreconditionFailed,
	}
	return slices.DeleteFunc(wanted, func(code int) bool {
		return slices.ContainsFunc(h.operations,
			func(o porcupine.Operation) bool { return o.Output.(answer).code == code })
	})
}

// operations is the number of operations of a test. Outside the full tier it is a few hundred.
func operations(t *testing.T, n int) int {
	t.Helper()
	return testtier.Count(t, 300, 300, n)
}

//go:build unix

package consoletest_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/functions/agents"
	"agents.example/controlplane/functions/console"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/functions/organizations"
	"agents.example/controlplane/functions/subscriptions"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/ratelimit"
)

// crowd is an organization with any number of agents. It serves the console and the routes that the list of agents
// needs, from memory: no plan allows as many agents as the list must bear.
type crowd struct {
	agent.Store
	organization.Directory

	mu      sync.Mutex
	agents  []agent.Agent // newest first
	version int
	account billing.Account
	// created are the requests to create an agent. Each is answered with the next of answers; the last one repeats.
	created []creation
	answers []func(w http.ResponseWriter, id string)
}

// creation is a request to create an agent.
type creation struct {
	key  string
	body map[string]any
}

const crowdOrganization = "org_crowd"

func newCrowd(t *testing.T, count int) *crowd {
	t.Helper()
	suite.RequireBrowser(t) // a test without a browser needs no agents
	c := &crowd{account: billing.Account{Organization: organization.New(crowdOrganization, time.Now())}}
	c.account.Plan = plan.Startup
	for i := range count {
		c.add(fmt.Sprintf("worker %04d", i), time.Now().Add(time.Duration(i-count)*time.Minute), nil)
	}
	return c
}

// add adds the newest agent. It is running unless change says otherwise.
func (c *crowd) add(name string, created time.Time, change func(*agent.Agent)) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	plans, regions := plan.All(), []string{"us-central1", "europe-west4"}
	draft := agent.Draft{
		Name: name, Plan: plans[len(c.agents)%len(plans)].ID, Cloud: agent.DefaultCloud,
		Region: regions[len(c.agents)%len(regions)],
	}
	a := agent.New(uuid.NewString(), "cell-1", draft, created)
	a.Status, a.Routed = agent.Running, true
	if change != nil {
		change(&a)
	}
	a.Version = c.nextVersion()
	c.agents = append([]agent.Agent{a}, c.agents...)
	return a.ID
}

func (c *crowd) nextVersion() string {
	c.version++
	return strconv.Itoa(c.version)
}

// change changes an agent.
func (c *crowd) change(id string, change func(*agent.Agent)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.agents, func(a agent.Agent) bool { return a.ID == id })
	change(&c.agents[i])
	c.agents[i].Version = c.nextVersion()
}

// remove removes an agent.
func (c *crowd) remove(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.agents = slices.DeleteFunc(slices.Clone(c.agents), func(a agent.Agent) bool { return a.ID == id })
}

// at returns the agent at a place of the list, newest first.
func (c *crowd) at(i int) agent.Agent {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.agents[i]
}

// List implements agent.Store. The cursor is the last id of the page before.
func (c *crowd) List(_ context.Context, _ agent.Filter, p page.Request) (page.Page[agent.Agent], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := 0
	if p.Cursor != "" {
		created, id, _ := strings.Cut(p.Cursor, " ")
		at, err := time.Parse(time.RFC3339Nano, created)
		if err != nil {
			return page.Page[agent.Agent]{}, err
		}
		first, _ = slices.BinarySearchFunc(c.agents, agent.Agent{ID: id, CreatedAt: at}, func(a, b agent.Agent) int {
			return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), strings.Compare(b.ID, a.ID), -1)
		})
	}
	end := min(first+p.Limit, len(c.agents))
	found := page.Page[agent.Agent]{Items: slices.Clone(c.agents[first:end])}
	if end < len(c.agents) {
		last := c.agents[end-1]
		found.Next = last.CreatedAt.UTC().Format(time.RFC3339Nano) + " " + last.ID
	}
	return found, nil
}

// Get implements agent.Store.
func (c *crowd) Get(_ context.Context, id string) (agent.Agent, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.agents {
		if a.ID == id {
			return a, nil
		}
	}
	return agent.Agent{}, agent.NotFound()
}

// Await implements agent.Store.
func (c *crowd) Await(ctx context.Context, id string, until func(agent.Agent) bool) (*agent.Agent, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		a, err := c.Get(ctx, id)
		if err != nil {
			return nil, err
		}
		if until(a) || ctx.Err() != nil {
			return &a, nil
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// crowdAccounts reads the account of a crowd.
type crowdAccounts struct {
	billing.Store
	crowd *crowd
}

// Account implements billing.Store.
func (a crowdAccounts) Account(context.Context, string) (billing.Account, error) {
	a.crowd.mu.Lock()
	defer a.crowd.mu.Unlock()
	return a.crowd.account, nil
}

// Organization implements organization.Directory.
func (c *crowd) Organization(context.Context, string) (organization.Organization, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.account.Organization, nil
}

// serve returns the address of the console and of the API.
func (c *crowd) serve(t *testing.T) string {
	t.Helper()
	addresses := agent.Display{Addresses: agent.Addresses{Domain: "agents.test", Scheme: "https"}}
	routes := append(console.Routes(console.Options{Regions: []string{"us-central1", "europe-west4"}}),
		agents.List(c, addresses), agents.Get(c, nil, addresses, ratelimit.NewSlots(ratelimit.StandardSlots(1, 40))),
		organizations.Me(c), organizations.Current(crowdAccounts{crowd: c}), subscriptions.Plans(false))
	served := make([]function.Served, 0, len(routes)+1)
	for _, r := range routes {
		served = append(served, r.Served(functiontest.NewGuard()))
	}
	served = append(served, function.Served{
		Method: http.MethodPost, Path: "/api/v1/agents", Handler: http.HandlerFunc(c.create),
	})
	return functiontest.Serve(t, function.Mux(served)).URL
}

// create records a request, and answers it as the test wants.
func (c *crowd) create(w http.ResponseWriter, r *http.Request) {
	request := creation{key: r.Header.Get("Idempotency-Key")}
	if err := json.NewDecoder(r.Body).Decode(&request.body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	c.created = append(c.created, request)
	answer := c.answers[min(len(c.created), len(c.answers))-1]
	c.mu.Unlock()
	answer(w, r.Header.Get("X-Request-Id"))
}

// refuse answers a creation with an error.
func refuse(err error) func(http.ResponseWriter, string) {
	return func(w http.ResponseWriter, requestID string) { function.WriteError(w, requestID, err) }
}

// accept answers a creation with a new agent.
func (c *crowd) accept(name string) func(http.ResponseWriter, string) {
	return func(w http.ResponseWriter, requestID string) {
		id := c.add(name, time.Now(), func(a *agent.Agent) { a.Status, a.Routed = agent.Provisioning, false })
		a, err := c.Get(context.Background(), id)
		if err != nil {
			function.WriteError(w, requestID, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(a.Show(crowdAdmin(), agent.Addresses{}))
	}
}

// requests returns what the console asked for.
func (c *crowd) requests() []creation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.created)
}

// open opens a place of the console as an admin, or as the holder of another token.
func (c *crowd) open(t *testing.T, fragment, token string) *consoletest.Page {
	t.Helper()
	p := suite.NewPage(t, c.serve(t))
	p.SignIn(token)
	p.Open("/console" + fragment)
	return p
}

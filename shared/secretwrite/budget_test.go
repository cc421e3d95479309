package secretwrite_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/secret"
	"agents.example/controlplane/shared/secretwrite"
	"agents.example/controlplane/shared/simulationtest"
)

// counted is a secret store and its budget. It counts what requests spend and what they are charged.
type counted struct {
	simulationtest.SecretClient
	mu      sync.Mutex
	calls   int
	charged secretwrite.Cost
	// kept is whether the answers of requests with an idempotency key are kept.
	kept bool
	// refuse is the error of charges.
	refuse error
	// added is called before a value is added.
	added func() error
	// looked is the error of looking a version up.
	looked error
}

func (c *counted) count() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
}

// Charge implements secretwrite.Budget. As in the real one, a call that replayed its answer is charged.
func (c *counted) Charge(ctx context.Context, cost secretwrite.Cost) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.kept && !call.From(ctx).Attempt.Used():
		return true, nil
	case c.refuse == nil:
		c.charged = c.charged.Plus(cost)
	}
	return false, c.refuse
}

func (c *counted) PutFirst(ctx context.Context, id, key string, value []byte) (int64, error) {
	return c.Put(ctx, id, key, value)
}

func (c *counted) Put(ctx context.Context, id, key string, value []byte) (int64, error) {
	c.count()
	if c.added != nil {
		if err := c.added(); err != nil {
			return 0, err
		}
	}
	return c.SecretClient.Put(ctx, id, key, value)
}

func (c *counted) LatestVersion(ctx context.Context, id, key string) (int64, error) {
	c.count()
	return c.SecretClient.LatestVersion(ctx, id, key)
}

func (c *counted) VersionCreated(ctx context.Context, id, key string, n int64) (time.Time, bool, error) {
	c.count()
	if c.looked != nil {
		return time.Time{}, false, c.looked
	}
	return c.SecretClient.VersionCreated(ctx, id, key, n)
}

// scene is an agent without secrets, and the service with a budget.
type scene struct {
	ctx     context.Context
	store   *counted
	service secretwrite.Service
	agents  agent.Store
	id      string
	ahead   time.Duration
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{ctx: call.As(t.Context(), identity.Caller{
		Type: identity.Session, ID: "user", OrganizationID: "org", Role: identity.RoleAdmin,
	})}
	o, d := &simulationtest.Direct{}, simulationtest.NewDatabase()
	d.SetPlan("org", plan.Pro)
	s.agents = simulationtest.Agents{Database: d, Process: o}
	now := func() time.Time { return o.Now().Add(s.ahead) }
	a, err := s.agents.Create(s.ctx,
		agent.New(agenttest.ID(), "cell-1", agent.Draft{Name: "a", Plan: plan.Hobby}, o.Now()))
	if err != nil {
		t.Fatal(err)
	}
	s.id = a.ID
	s.store = &counted{SecretClient: simulationtest.SecretClient{Store: simulationtest.NewSecretStore(now), Process: o}}
	s.service = secretwrite.Service{Agents: s.agents, Secrets: s.store, Budget: s.store, Now: now}
	return s
}

// put sets keys to a value; a key that begins with "-" is deleted.
func (s *scene) put(keys ...string) error {
	changes := map[string]*string{}
	for _, key := range keys {
		value := "value"
		if changes[key] = &value; key[0] == '-' {
			delete(changes, key)
			changes[key[1:]] = nil
		}
	}
	_, _, err := s.service.Put(s.ctx, s.id, secretwrite.Changes{Values: changes})
	return err
}

// spent returns what was charged and called since the last time.
func (s *scene) spent() (charged secretwrite.Cost, calls int) {
	charged, calls = s.store.charged, s.store.calls
	s.store.charged, s.store.calls = secretwrite.Cost{}, 0
	return charged, calls
}

func TestPut_IsChargedForEachSecretThatItChanges(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for _, step := range []struct {
		about     string
		keys      []string
		want      secretwrite.Cost
		wantCalls int
	}{
		{about: "new secrets", keys: []string{"A", "B"}, want: secretwrite.Cost{Secrets: 2, Calls: 4}, wantCalls: 4},
		{about: "an old secret", keys: []string{"A"}, want: secretwrite.Cost{Secrets: 1, Calls: 1}, wantCalls: 2},
		{about: "deletions of unknown keys", keys: []string{"-X", "-Y"}},
		{
			about: "one of each", keys: []string{"A", "C", "-B", "-X"},
			want: secretwrite.Cost{Secrets: 3, Calls: 4}, wantCalls: 5,
		},
		{about: "a deletion in progress", keys: []string{"-B"}},
	} {
		if err := s.put(step.keys...); err != nil {
			t.Fatalf("%s: %v", step.about, err)
		}
		if got, calls := s.spent(); got != step.want || calls != step.wantCalls {
			t.Errorf("%s: charged %+v for %d calls, want %+v for %d", step.about, got, calls, step.want, step.wantCalls)
		}
	}
}

func TestPut_MakesNoCallBeyondTheBudget(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	if err := s.put("A"); err != nil {
		t.Fatal(err)
	}
	s.spent()
	s.store.refuse = fault.New(fault.RateLimited, "rate_limited", "Too many.")
	for _, keys := range [][]string{{"A"}, {"B"}, {"-A"}, {"A", "-X"}} {
		if err := s.put(keys...); !errors.Is(err, s.store.refuse) {
			t.Errorf("Put of %q = %v, want the refusal", keys, err)
		}
	}
	if err := s.put("-X"); err != nil {
		t.Errorf("Put that changes nothing = %v, want no error", err)
	}
	if _, calls := s.spent(); calls != 0 {
		t.Errorf("%d calls of the secret store, want none", calls)
	}
}

func TestPut_OfARefusedRequestIsNotCharged(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	if _, err := s.service.Rotate(s.ctx, s.id, ""); fault.Code(err) != "credentials_not_ready" {
		t.Errorf("Rotate = %v, want credentials_not_ready", err)
	}
	if _, err := s.agents.Change(s.ctx, s.id, func(a *agent.Agent) error {
		return a.Act(agent.Delete, agent.Manual, time.Now())
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.put("A", "B"); fault.Code(err) != "agent_deleting" {
		t.Errorf("Put = %v, want agent_deleting", err)
	}
	if got, calls := s.spent(); got != (secretwrite.Cost{}) || calls != 0 {
		t.Errorf("charged %+v for %d calls, want nothing", got, calls)
	}
}

// changing is a store in which another request sets OTHER before each of the first changes.
type changing struct {
	agent.Store
	before []func() error
}

func (c *changing) Change(ctx context.Context, id string, change func(*agent.Agent) error) (agent.Agent, error) {
	if len(c.before) > 0 {
		first := c.before[0]
		c.before = c.before[1:]
		if err := first(); err != nil {
			return agent.Agent{}, err
		}
	}
	return c.Store.Change(ctx, id, change)
}

func TestPut_LooksUpOnlyKeysThatOtherRequestsChanged(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	other := s.service
	set := func(key string) func() error {
		return func() error {
			value := "other"
			_, _, err := other.Put(s.ctx, s.id, secretwrite.Changes{Values: map[string]*string{key: &value}})
			return err
		}
	}
	if err := s.put("A", "B", "OTHER"); err != nil {
		t.Fatal(err)
	}
	s.spent()
	s.service.Agents = &changing{Store: s.agents, before: []func() error{set("OTHER"), set("A"), set("OTHER")}}
	if err := s.put("A", "B"); err != nil {
		t.Fatal(err)
	}
	// The other requests cost 3. This one looks A and B up, then A, and adds both.
	want := secretwrite.Cost{Secrets: 6, Calls: 6}
	if got, calls := s.spent(); got != want || calls != 3*2+5 {
		t.Errorf("charged %+v for %d calls, want %+v for 11", got, calls, want)
	}
	a, err := s.agents.Get(s.ctx, s.id)
	if err != nil {
		t.Fatal(err)
	}
	if got := a.HighestVersion("A"); got != 3 {
		t.Errorf("the highest version of A is %d, want 3", got)
	}
}

// TestPut_RepeatIsChargedForWhatItStores repeats a request whose value was not stored.
func TestPut_RepeatIsChargedForWhatItStores(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	request := func() context.Context {
		return call.Derive(s.ctx, func(c *call.Call) {
			c.Attempt = idempotency.New("org", "k", idempotency.Request{Method: "PUT", Path: "/"})
		})
	}
	put := func() error {
		value := "value"
		_, _, err := s.service.Put(request(), s.id, secretwrite.Changes{Values: map[string]*string{"A": &value}})
		return err
	}
	s.store.added = func() error { return errors.New("lost") }
	if err := put(); err == nil {
		t.Fatal("Put succeeded without its value")
	}
	s.spent()
	s.store.added, s.store.kept = nil, true
	s.ahead = secret.StoringTime
	s.store.refuse = fault.New(fault.RateLimited, "rate_limited", "Too many.")
	if err := put(); !errors.Is(err, s.store.refuse) {
		t.Errorf("a repeat beyond the budget: %v, want the refusal", err)
	}
	if _, calls := s.spent(); calls != 0 {
		t.Errorf("%d calls of the secret store, want none", calls)
	}
	s.store.refuse = nil
	if err := put(); err != nil {
		t.Fatal(err)
	}
	want := secretwrite.Cost{Secrets: 1, Calls: 2}
	if got, _ := s.spent(); got != want {
		t.Errorf("charged %+v, want %+v", got, want)
	}
}

// TestCreate_RepeatFailsUntilItsValuesAreStored repeats a creation whose value was not stored. Once a repeat succeeds,
// its client does not send the value again.
func TestCreate_RepeatFailsUntilItsValuesAreStored(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	draft := agent.New(agenttest.ID(), "cell-1", agent.Draft{Name: "b", Plan: plan.Hobby}, s.service.Now())
	create := func() (agent.Agent, error) {
		ctx := call.Derive(s.ctx, func(c *call.Call) {
			c.Attempt = idempotency.New("org", "k", idempotency.Request{Method: "POST", Path: "/"})
		})
		return s.service.Create(ctx, draft, map[string]string{"TOKEN": "value"})
	}
	s.store.added = func() error { return errors.New("lost") }
	if _, err := create(); err != nil {
		t.Fatal(err)
	}
	s.store.added = nil
	s.ahead = secret.StoringTime
	outage := fault.New(fault.Unavailable, "secret_quota_exceeded", "Too many.")
	s.store.refuse = outage
	if _, err := create(); !errors.Is(err, outage) {
		t.Errorf("a repeat beyond the budget: %v, want the refusal", err)
	}
	s.store.refuse, s.store.looked = nil, outage
	if _, err := create(); !errors.Is(err, outage) {
		t.Errorf("a repeat during an outage: %v, want that of the secret store", err)
	}
	s.store.looked = nil
	if a, err := create(); err != nil || len(a.Operations) != 1 || a.Operations[0].Stage != secret.Bind {
		t.Errorf("the last repeat: %+v, %v, want the value stored", a.Operations, err)
	}
}

func TestReconcile_IsChargedAtTheStoreStage(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.store.added = func() error { return errors.New("lost") }
	if err := s.put("A"); err == nil {
		t.Fatal("Put succeeded without its value")
	}
	a, err := s.agents.Get(s.ctx, s.id)
	if err != nil {
		t.Fatal(err)
	}
	id := a.Operations[0].ID
	s.spent()
	if _, err := s.service.Reconcile(s.ctx, s.id, id); fault.Code(err) != "operation_in_progress" {
		t.Errorf("Reconcile of a request that stores = %v, want operation_in_progress", err)
	}
	if got, calls := s.spent(); got != (secretwrite.Cost{}) || calls != 0 {
		t.Errorf("charged %+v for %d calls while the request stores, want nothing", got, calls)
	}
	s.ahead = secret.StoringTime
	if _, err := s.service.Reconcile(s.ctx, s.id, id); fault.Code(err) != "secret_value_unavailable" {
		t.Errorf("Reconcile = %v, want secret_value_unavailable", err)
	}
	if got, calls := s.spent(); got != (secretwrite.Cost{Secrets: 1, Calls: 1}) || calls != 1 {
		t.Errorf("charged %+v for %d calls, want one for one", got, calls)
	}
	s.store.refuse = fault.New(fault.RateLimited, "rate_limited", "Too many.")
	if _, err := s.service.Reconcile(s.ctx, s.id, id); !errors.Is(err, s.store.refuse) {
		t.Errorf("Reconcile beyond the budget = %v, want the refusal", err)
	}
	if _, calls := s.spent(); calls != 0 {
		t.Errorf("%d calls of the secret store, want none", calls)
	}
}

// TestRequestLimit_LeavesMoreThanHalfToWorkers spends all that requests get, as early as possible.
func TestRequestLimit_LeavesMoreThanHalfToWorkers(t *testing.T) {
	t.Parallel()
	for _, quota := range []int{600, 601, 1000, 6000, 90_000} {
		limit := secretwrite.RequestLimit(quota)
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		var fullAt time.Time
		spent, interval := 0, limit.Window/time.Duration(limit.Quota)
		for at := start; at.Sub(start) < time.Minute; at = at.Add(interval / 2) {
			for {
				next, d := limit.TakeStored("requests", 1, fullAt, at)
				if !d.Allowed {
					break
				}
				fullAt = next
				spent++
			}
		}
		if 2*spent >= quota || 5*spent < 2*quota {
			t.Errorf("of %d writes a minute, requests get %d, want from 40 to less than 50 percent", quota, spent)
		}
	}
}

// TestRequestLimit_AllowsTheLargestRequest creates an agent with as many secrets as it may have.
func TestRequestLimit_AllowsTheLargestRequest(t *testing.T) {
	t.Parallel()
	a := agent.Agent{Operations: make([]secret.Operation, agent.MaxEnvKeys)}
	for i := range a.Operations {
		a.Operations[i] = secret.New(secret.Operation{Action: secret.Set}, time.Now())
	}
	cost, limit := secretwrite.CreationCost(a), secretwrite.RequestLimit(600)
	if cost.Secrets != agent.MaxEnvKeys || cost.Calls > limit.Quota+1 {
		t.Errorf("the largest creation costs %+v, want %d secrets and about the quota of %d calls", cost,
			agent.MaxEnvKeys, limit.Quota)
	}
}

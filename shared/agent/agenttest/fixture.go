// Package agenttest tests that an adapter keeps the promises of agent.Store and agent.WorkerStore. It does not depend
// on the adapter: the adapter's test hands in a Fixture.
package agenttest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/ratelimit"
)

// Fixture is an empty store, and what a test needs in order to check what the store wrote.
type Fixture struct {
	Store   agent.Store
	Records agent.WorkerStore
	// Nudges is the nudger that the store uses.
	Nudges *Nudges
	// Organization reads an organization's record.
	Organization func(ctx context.Context, id string) (organization.Organization, error)
	// SetPlan puts an organization on a plan. It creates the organization's record if there is none.
	SetPlan func(ctx context.Context, organizationID string, p plan.ID) error
	// Entries reads the audit entries of an organization, oldest first.
	Entries func(ctx context.Context, organizationID string) ([]audit.Entry, error)
	// Log is the audit log.
	Log audit.Log
	// Limited opens Store in another process, which has a rate limit of creations and a separate clock. Only TestStore
	// uses it.
	Limited func(t testing.TB, creations ratelimit.Limit, now func() time.Time) agent.Store
}

// Nudges is an agent.Nudger that records its nudges. The zero value is ready for use.
type Nudges struct {
	mu  sync.Mutex
	ids []string
	err error
}

// Nudge implements agent.Nudger.
func (n *Nudges) Nudge(_ context.Context, id string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ids = append(n.ids, id)
	return n.err
}

// Fail makes every later nudge fail with err.
func (n *Nudges) Fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.err = err
}

// Count returns how often the agent was nudged.
func (n *Nudges) Count(id string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(n.ids), func(other string) bool { return other != id }))
}

// ID makes a random id in the form of a UUID.
func ID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	s := hex.EncodeToString(b)
	return s[:8] + "-" + s[8:12] + "-4" + s[13:16] + "-8" + s[17:20] + "-" + s[20:]
}

// reporter is a testing.TB whose failures name this suite: its file names, such as store.go, are also those of other
// packages.
type reporter struct{ *testing.T }

const suite = "agenttest: "

// Errorf implements testing.TB.
func (r reporter) Errorf(format string, args ...any) {
	r.Helper()
	r.T.Errorf(suite+format, args...)
}

// Fatalf implements testing.TB.
func (r reporter) Fatalf(format string, args ...any) {
	r.Helper()
	r.T.Fatalf(suite+format, args...)
}

// Error implements testing.TB.
func (r reporter) Error(args ...any) {
	r.Helper()
	r.T.Error(suite + fmt.Sprint(args...))
}

// Fatal implements testing.TB.
func (r reporter) Fatal(args ...any) {
	r.Helper()
	r.T.Fatal(suite + fmt.Sprint(args...))
}

// runEach runs the tests in parallel, each in a fixture that open makes.
func runEach(t *testing.T, tests map[string]func(testing.TB, Fixture), open func(*testing.T) Fixture) {
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(reporter{t}, open(t))
		})
	}
}

// equal reports a value that differs from the wanted one.
func equal[V comparable](t testing.TB, what string, got, want V) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %+v, want %+v", what, got, want)
	}
}

// sameRecord reports a record that differs from the wanted one.
func sameRecord(t testing.TB, what string, got, want agent.Agent) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s (-want +got):\n%s", what, cmp.Diff(want, got))
	}
}

// Tenant is an organization in a test, and the context of its administrator's requests.
type Tenant struct {
	t       testing.TB
	fixture Fixture
	ID      string
	Ctx     context.Context
}

// Tenant makes an organization on a plan.
func (w Fixture) Tenant(t testing.TB, p plan.ID) Tenant {
	t.Helper()
	id := "org_" + ID()
	if err := w.SetPlan(t.Context(), id, p); err != nil {
		t.Fatalf("set the plan: %v", err)
	}
	return w.TenantWithoutRecord(t, id)
}

// TenantWithoutRecord makes an organization that has no record yet.
func (w Fixture) TenantWithoutRecord(t testing.TB, id string) Tenant {
	caller := identity.Caller{
		Type: identity.Session, ID: "user_" + ID(), Email: "ada@example.com", OrganizationID: id,
		Role: identity.RoleAdmin,
	}
	return Tenant{t, w, id, call.WithRequest(call.As(t.Context(), caller), audit.Request{
		Action: "TestAgent", RequestID: "request-1", IP: "192.0.2.1", UserAgent: "suite",
	})}
}

// Draft makes a new agent as a route does. Its times have microseconds, the precision that a store must keep.
func Draft(size plan.ID) agent.Agent {
	return agent.New(ID(), "cell-1", agent.Draft{
		Egress: &egress.Rules{},
		Name:   "Support Bot", Plan: size, Cloud: "gcp", Region: "europe-west3",
		Config: json.RawMessage(`{"a.b/c":{"__x__":[1]}}`),
		Env:    []agent.EnvVar{{Key: "LEVEL", Value: "plain-value"}, {Key: "TOKEN", SecretVersion: 3}},
	}, Now())
}

// Now is the present time in microseconds, the precision that a store must keep.
func Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// Create creates an agent that fits into the organization's plan.
func (n Tenant) Create(size plan.ID) agent.Agent {
	n.t.Helper()
	a, err := n.fixture.Store.Create(n.Ctx, Draft(size))
	if err != nil {
		n.t.Fatalf("create an agent: %v", err)
	}
	return a
}

// Usage reads what the organization holds.
func (n Tenant) Usage() organization.Usage {
	n.t.Helper()
	o, err := n.fixture.Organization(n.Ctx, n.ID)
	if err != nil {
		n.t.Fatalf("read the organization: %v", err)
	}
	return o.Usage
}

// Entries reads the organization's audit entries.
func (n Tenant) Entries() []audit.Entry {
	n.t.Helper()
	entries, err := n.fixture.Entries(n.Ctx, n.ID)
	if err != nil {
		n.t.Fatalf("read the audit log: %v", err)
	}
	return entries
}

// load reads the present record.
func (n Tenant) load(id string) agent.Agent {
	n.t.Helper()
	a, err := n.fixture.Records.Load(n.t.Context(), id)
	if err != nil {
		n.t.Fatalf("load the agent: %v", err)
	}
	return a
}

// change applies a change that must succeed.
func (n Tenant) change(id string, apply func(*agent.Agent) error) agent.Agent {
	n.t.Helper()
	a, err := n.fixture.Store.Change(n.Ctx, id, apply)
	if err != nil {
		n.t.Fatalf("change the agent: %v", err)
	}
	return a
}

// act makes the closure of a client's action.
func act(trigger agent.Trigger) func(*agent.Agent) error {
	return func(a *agent.Agent) error { return a.Act(trigger, agent.Manual, Now()) }
}

// sum adds up the usage that agents hold.
func sum(agents ...agent.Agent) organization.Usage {
	var total organization.Usage
	for _, a := range agents {
		total = total.Plus(a.HeldUsage())
	}
	return total
}

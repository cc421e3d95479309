package agents_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"github.com/google/uuid"

	"agents.example/controlplane/emulators/firestoreemu/embedded"
	"agents.example/controlplane/emulators/secretmanageremu"
	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/infra/firestore"
	"agents.example/controlplane/infra/secretmanager"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/ratelimit"
	"agents.example/controlplane/shared/secretwrite"
	"agents.example/controlplane/shared/testtier"
)

// market is a deployment with production limits on a Secret Manager with Google's quotas, under a clock that only the
// test moves.
type market struct {
	mu      sync.Mutex
	at      time.Time
	records *firestore.Client
	server  *secretmanageremu.Server
	writer  secretwrite.Service
	worker  provisioning.Reconciler
}

func (m *market) now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at
}

func (m *market) advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = m.at.Add(d)
}

func newMarket(t *testing.T) *market {
	t.Helper()
	const quota = 600
	m := &market{at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	database, err := embedded.Start(t.Context(), embedded.Options{Indexes: firestore.Indexes()})
	must(t, err)
	t.Cleanup(func() { must(t, database.Close()) })
	m.records, err = firestore.Open(t.Context(), firestore.Options{
		ProjectID: "test", EmulatorHost: database.Addr, Now: m.now,
		SecretWrites:   ratelimit.Standard(1)[ratelimit.SecretWrites],
		SecretRequests: secretwrite.RequestLimit(quota), SecretCleanup: provisioning.CleanupLimit(quota),
	})
	must(t, err)
	t.Cleanup(func() { must(t, m.records.Close()) })
	m.server, err = secretmanageremu.Start(t.Context(), secretmanageremu.Options{Now: m.now})
	must(t, err)
	t.Cleanup(func() { must(t, m.server.Close()) })
	store, err := secretmanager.Open(t.Context(), secretmanager.Options{
		ProjectID: "test", Environment: "test", Database: "test", Endpoint: m.server.Addr,
	})
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	backend, budget := backendtest.New(t), m.records.SecretBudget()
	m.writer = secretwrite.Service{Agents: m.records.Agents(nil), Secrets: store, Budget: budget, Now: m.now}
	m.worker = provisioning.Reconciler{
		Records: m.records.WorkerStore(), Cluster: backend.Cluster, Secrets: store, Prober: backend.Prober,
		Cleanup: budget, Now: m.now,
	}
	return m
}

// tenant is an admin of a new organization.
func (m *market) tenant(t *testing.T, org string) context.Context {
	t.Helper()
	ctx := call.As(t.Context(), identity.Caller{
		ID: "user", Type: identity.Session, OrganizationID: org, Role: identity.RoleAdmin,
	})
	_, err := m.records.Directory().Ensure(ctx, org, organization.User{})
	must(t, err)
	must(t, m.records.Directory().SetPlan(ctx, org, plan.Enterprise))
	return ctx
}

// create creates an agent, without a rate limit of creations.
func (m *market) create(ctx context.Context, t *testing.T) string {
	t.Helper()
	draft := agent.Draft{Name: "a", Plan: plan.Hobby, Region: agent.DefaultRegion}
	a, err := m.writer.Create(ctx, agent.New(uuid.NewString(), "cell-1", draft, m.now()), nil)
	must(t, err)
	return a.ID
}

// attacker has an agent whose secrets it changes as often as it may.
type attacker struct {
	ctx context.Context
	id  string
	// resting is whether the agent is stopped. Otherwise it does not come up, and no version is destroyed.
	resting bool
	// writes counts the secrets that it changed.
	writes int
}

// attack sets secrets until a limit refuses that, and returns the code of the refusal.
func (m *market) attack(t *testing.T, a *attacker) (code string) {
	t.Helper()
	for code == "" {
		code = m.put(t, a)
	}
	return code
}

// put sets 20 secrets of an agent at rest, or one of another agent. It returns the code of the first error.
func (m *market) put(t *testing.T, a *attacker) string {
	t.Helper()
	changes, value := map[string]*string{}, "v"
	for i := range 20 {
		if i == 0 || a.resting {
			changes[fmt.Sprint("K", i)] = &value
		}
	}
	_, operations, err := m.writer.Put(a.ctx, a.id, secretwrite.Changes{Values: changes})
	for _, o := range operations {
		if o.ErrorCode != "" {
			return o.ErrorCode
		}
		a.writes++
	}
	return fault.Code(err)
}

// attackers makes four organizations with a stopped agent each, and four with one that does not come up. The agents
// have secrets, and all limits are full.
func (m *market) attackers(t *testing.T) []*attacker {
	t.Helper()
	var all []*attacker
	for i := range 8 {
		ctx := m.tenant(t, fmt.Sprint("hostile-", i))
		a := &attacker{ctx: ctx, id: m.create(ctx, t), resting: i%2 == 0}
		if a.resting {
			_, err := m.writer.Agents.Change(ctx, a.id, func(a *agent.Agent) error {
				return a.Act(agent.Stop, agent.Manual, m.now())
			})
			must(t, err)
			must(t, m.worker.Reconcile(ctx, a.id))
		}
		if code := m.put(t, a); code != "" {
			t.Fatal(code)
		}
		m.advance(time.Minute)
		all = append(all, a)
	}
	m.advance(5 * time.Minute)
	for _, a := range all {
		a.writes = 0
	}
	return all
}

// TestSecretQuota_IsLeftToWorkers lets hostile organizations change secrets as often as they may for more than the
// minute of a quota, with workers that destroy what they replace. In between, workers bring up new agents of another
// organization.
func TestSecretQuota_IsLeftToWorkers(t *testing.T) {
	t.Parallel()
	m := newMarket(t)
	attackers := m.attackers(t)
	refusals := map[string]int{}
	for step := range testtier.Count(t, 15, 15, 36) {
		m.advance(5 * time.Second)
		for i, a := range attackers {
			refusals[m.attack(t, a)]++
			if most := 100 + 5*(step+1); a.writes > most {
				t.Fatalf("attacker %d changed %d secrets until step %d, want at most %d", i, a.writes, step, most)
			}
			if !a.resting {
				continue
			}
			if err := m.worker.Reconcile(a.ctx, a.id); err != nil && fault.Code(err) != "secret_quota_exceeded" {
				t.Fatal(err)
			}
		}
		victim := m.tenant(t, fmt.Sprint("victim-", step))
		for range 5 {
			id := m.create(victim, t)
			if err := m.worker.Reconcile(victim, id); err != nil {
				t.Fatalf("bringing up an agent of another organization: %v", err)
			}
		}
	}
	if refused := m.server.Refused(); len(refused) > 0 {
		t.Errorf("Secret Manager refused %v, want nothing", refused)
	}
	t.Logf("attacks ended with %v; calls %v", refusals, m.server.Calls())
	for name, states := range m.server.States() {
		states = slices.DeleteFunc(states, func(s secretmanagerpb.SecretVersion_State) bool {
			return s == secretmanagerpb.SecretVersion_DESTROYED
		})
		if len(states) > agent.MaxLiveVersions {
			t.Errorf("%s has %d live versions, want at most %d", name, len(states), agent.MaxLiveVersions)
		}
	}
}

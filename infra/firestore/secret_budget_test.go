package firestore

import (
	"context"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/ratelimit"
	"agents.example/controlplane/shared/rehearsal"
	"agents.example/controlplane/shared/secret"
	"agents.example/controlplane/shared/secretwrite"
)

// limitedSecrets allows an organization 10 secrets, and all organizations together 15 calls, one every 6 s.
func limitedSecrets(now func() time.Time) Options {
	return Options{
		SecretWrites:   ratelimit.Limit{Quota: 10, Window: time.Minute},
		SecretRequests: ratelimit.Limit{Quota: 15, Window: 90 * time.Second}, Now: now,
	}
}

// charge charges and returns the kind of the error, or "".
func charge(ctx context.Context, t *testing.T, c *Client, cost secretwrite.Cost) string {
	t.Helper()
	_, err := c.SecretBudget().Charge(ctx, cost)
	switch {
	case err == nil:
		return ""
	case fault.Is(err, fault.RateLimited):
		return "organization"
	case fault.Code(err) == "secret_quota_exceeded" && fault.Is(err, fault.Unavailable):
		return "service"
	default:
		t.Fatal(err)
		return ""
	}
}

func TestCharge_ChargesTheOrganizationAndTheServiceOrNeither(t *testing.T) {
	t.Parallel()
	now := agenttest.Now()
	c := open(t, "", limitedSecrets(func() time.Time { return now }))
	f := agentFixture(c)
	first, second := f.Tenant(t, plan.Hobby).Ctx, f.Tenant(t, plan.Hobby).Ctx
	of := func(secrets, calls int) secretwrite.Cost { return secretwrite.Cost{Secrets: secrets, Calls: calls} }
	for i, step := range []struct {
		about      string
		after      time.Duration
		ctx        context.Context
		cost       secretwrite.Cost
		wantRefuse string
	}{
		{about: "within both limits", ctx: first, cost: secretwrite.Cost{Secrets: 8, Calls: 8}},
		{about: "over the organization's", ctx: first, cost: of(3, 3), wantRefuse: "organization"},
		{about: "another organization's rest of the service", ctx: second, cost: of(4, 7)},
		{about: "over the service's", ctx: second, cost: secretwrite.Cost{Secrets: 1, Calls: 1}, wantRefuse: "service"},
		{about: "the refused one was not charged", after: 6 * time.Second, ctx: second, cost: of(1, 1)},
		{about: "without calls", ctx: second, cost: secretwrite.Cost{Secrets: 5}},
		{about: "all that is left of the organization's", ctx: second, cost: of(2, 0), wantRefuse: "organization"},
		{about: "after 90 s", after: 90 * time.Second, ctx: first, cost: secretwrite.Cost{Secrets: 10, Calls: 15}},
	} {
		now = now.Add(step.after)
		if got := charge(step.ctx, t, c, step.cost); got != step.wantRefuse {
			t.Errorf("step %d, %s: refused by %q, want %q", i, step.about, got, step.wantRefuse)
		}
	}
}

// TestCharge_OfARehearsalRefusesAndCountsNothing rehearses as often as real calls would use up the limit.
func TestCharge_OfARehearsalRefusesAndCountsNothing(t *testing.T) {
	t.Parallel()
	now := agenttest.Now()
	c := open(t, "", limitedSecrets(func() time.Time { return now }))
	ctx := agentFixture(c).Tenant(t, plan.Hobby).Ctx
	rehearsed := call.Derive(ctx, func(c *call.Call) { c.Rehearsal = &rehearsal.Rehearsal{} })
	whole := secretwrite.Cost{Secrets: 10, Calls: 15}
	for range 2 {
		if got := charge(rehearsed, t, c, whole); got != "" {
			t.Fatalf("a rehearsal is refused by %q, want no refusal", got)
		}
	}
	if got := charge(ctx, t, c, whole); got != "" {
		t.Errorf("the real charge after rehearsals is refused by %q, want no refusal", got)
	}
	if got := charge(rehearsed, t, c, secretwrite.Cost{Secrets: 1}); got != "organization" {
		t.Errorf("a rehearsal over the limit is refused by %q, want the organization's", got)
	}
	if got := charge(rehearsed, t, c, secretwrite.Cost{Calls: 1}); got != "service" {
		t.Errorf("a rehearsal over the limit is refused by %q, want the service's", got)
	}
}

// TestCharge_IsExactOverProcesses charges concurrently from two processes, in three organizations.
func TestCharge_IsExactOverProcesses(t *testing.T) {
	t.Parallel()
	now := agenttest.Now()
	clock := func() time.Time { return now }
	c := open(t, "", limitedSecrets(clock))
	clients := []*Client{c, open(t, c.project(), limitedSecrets(clock))}
	f := agentFixture(c)
	orgs := []context.Context{f.Tenant(t, plan.Hobby).Ctx, f.Tenant(t, plan.Hobby).Ctx, f.Tenant(t, plan.Hobby).Ctx}
	refused := make([]string, 36)
	var all sync.WaitGroup
	for i := range refused {
		all.Go(func() {
			refused[i] = charge(orgs[i%len(orgs)], t, clients[i%len(clients)], secretwrite.Cost{Secrets: 1, Calls: 1})
		})
	}
	all.Wait()
	allowed, ofFirst := 0, 0
	for i, by := range refused {
		if by == "" {
			allowed++
			if i%len(orgs) == 0 {
				ofFirst++
			}
		}
	}
	if allowed != 15 || ofFirst > 10 {
		t.Errorf("%d charges succeeded, %d of one organization, want 15 and at most 10", allowed, ofFirst)
	}
}

// TestCharge_SkipsRequestsWhoseAnswerIsKept repeats a request after it used up the limit.
func TestCharge_SkipsRequestsWhoseAnswerIsKept(t *testing.T) {
	t.Parallel()
	now := agenttest.Now()
	c := open(t, "", limitedSecrets(func() time.Time { return now }))
	org := agentFixture(c).Tenant(t, plan.Hobby)
	a := org.Create(plan.Hobby)
	all := secretwrite.Cost{Secrets: 10, Calls: 10}
	ctx, _ := org.Attempt("k", "put")
	if kept, err := c.SecretBudget().Charge(ctx, all); kept || err != nil {
		t.Fatalf("Charge of a first request = %t, %v, want false, nil", kept, err)
	}
	_, err := c.Agents(nil).Change(ctx, a.ID, stop)
	must(t, err)
	for range 2 {
		ctx, _ = org.Attempt("k", "put")
		if kept, err := c.SecretBudget().Charge(ctx, all); !kept || err != nil {
			t.Errorf("Charge of a repeat = %t, %v, want true, nil", kept, err)
		}
	}
	ctx, _ = org.Attempt("k", "another request")
	if _, err := c.SecretBudget().Charge(ctx, all); fault.Code(err) != "idempotency_key_reused" {
		t.Errorf("Charge with the key of a different request: %v, want idempotency_key_reused", err)
	}
	if got := charge(org.Ctx, t, c, secretwrite.Cost{Secrets: 1}); got != "organization" {
		t.Errorf("a new request is refused by %q, want the organization's limit", got)
	}
}

// withSecrets is a new agent with a number of secrets.
func withSecrets(t *testing.T, n int) agent.Agent {
	t.Helper()
	a := agenttest.Draft(plan.Hobby)
	var requested []secret.Operation
	for i := range n {
		requested = append(requested, secret.Operation{
			ID: agenttest.ID(), AgentID: a.ID, Key: "K" + string(rune('A'+i)), Action: secret.Set,
			RequiredToStart: true,
		})
	}
	_, err := a.BeginOperations(0, requested, a.CreatedAt)
	must(t, err)
	return a
}

// TestCreate_CountsSecretsOfAgentsThatItCreates creates agents with 3 secrets each, of 2 calls each.
func TestCreate_CountsSecretsOfAgentsThatItCreates(t *testing.T) {
	t.Parallel()
	now := agenttest.Now()
	c := open(t, "", limitedSecrets(func() time.Time { return now }))
	f := agentFixture(c)
	small, org := f.Tenant(t, plan.Hobby), f.Tenant(t, plan.Enterprise)
	agents := c.Agents(&agenttest.Nudges{})
	create := func(ctx context.Context, n int, wantCode string) {
		t.Helper()
		if _, err := agents.Create(ctx, withSecrets(t, n)); fault.Code(err) != wantCode {
			t.Errorf("Create with %d secrets: %v, want code %q", n, err, wantCode)
		}
	}
	create(small.Ctx, 0, "")
	create(small.Ctx, 3, "plan_capacity_exceeded")
	ctx, _ := org.Attempt("k", "create")
	create(ctx, 3, "")
	for range 5 {
		ctx, attempt := org.Attempt("k", "create")
		create(ctx, 3, "")
		if !attempt.Replayed() {
			t.Error("a repeat created another agent, want the kept answer")
		}
	}
	create(org.Ctx, 3, "")
	create(org.Ctx, 5, "rate_limited")          // 6 of 10 are taken
	create(org.Ctx, 2, "secret_quota_exceeded") // 12 of 15 are taken
	create(org.Ctx, 0, "")
	create(org.Ctx, 1, "")
}

func TestTakeCleanup_IsLimitedApartFromRequests(t *testing.T) {
	t.Parallel()
	now := agenttest.Now()
	options := limitedSecrets(func() time.Time { return now })
	options.SecretCleanup = ratelimit.Limit{Quota: 5, Window: 30 * time.Second}
	c := open(t, "", options)
	org := agentFixture(c).Tenant(t, plan.Hobby).Ctx
	take := func(about string, calls int64, wantCode string) {
		t.Helper()
		if err := c.SecretBudget().TakeCleanup(t.Context(), calls); fault.Code(err) != wantCode {
			t.Errorf("%s: %v, want code %q", about, err, wantCode)
		}
	}
	if got := charge(org, t, c, secretwrite.Cost{Secrets: 10, Calls: 15}); got != "" {
		t.Fatalf("the requests' limit refuses a charge: %s", got)
	}
	take("after requests took all of theirs", 4, "")
	take("more than is left", 2, "secret_quota_exceeded")
	take("what is left", 1, "")
	now = now.Add(30 * time.Second)
	take("more than the whole limit, which is full", 500, "")
	if got := charge(org, t, c, secretwrite.Cost{Secrets: 1, Calls: 5}); got != "" {
		t.Errorf("workers took from the limit of requests, which refuses 5 calls after 30 s: %s", got)
	}
}

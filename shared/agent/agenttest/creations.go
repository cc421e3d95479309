package agenttest

import (
	"context"
	"reflect"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/ratelimit"
)

// creationTests check the rate limit of creations.
func creationTests() map[string]func(testing.TB, Fixture) {
	return map[string]func(testing.TB, Fixture){
		"creations over the rate limit are refused":      creationsOverLimit,
		"creations without a limit":                      creationsWithoutLimit,
		"processes share the rate limit of creations":    creationsOfTwoProcesses,
		"repeated creations do not count":                repeatedCreationsDoNotCount,
		"creations that the plan refuses do not count":   refusedCreationsDoNotCount,
		"other changes keep the rate limit of creations": changesKeepCreations,
		"creations under clocks that differ":             creationsUnderSkew,
		"a wrong clock keeps creations out for a window": creationsAfterWrongClock,
	}
}

// threePerMinute allows a creation every 20 seconds, and three in a row.
func threePerMinute() ratelimit.Limit { return ratelimit.Limit{Quota: 3, Window: time.Minute} }

// limitedStore is a store with the limit threePerMinute under a clock that stands still until a test moves it.
type limitedStore struct {
	agent.Store
	now time.Time
}

func (w Fixture) limitedStore(t testing.TB, at time.Time) *limitedStore {
	s := &limitedStore{now: at}
	s.Store = w.Limited(t, threePerMinute(), func() time.Time { return s.now })
	return s
}

// wantCreations creates agents until one is refused, and returns how long to wait for the next. want is the number that
// must succeed.
func (s *limitedStore) wantCreations(ctx context.Context, t testing.TB, what string, want int) time.Duration {
	t.Helper()
	for n := 0; ; n++ {
		_, err := s.Create(ctx, Draft(plan.Hobby))
		if err == nil && n < 2*threePerMinute().Quota {
			continue
		}
		equal(t, "creations "+what, n, want)
		if !fault.Is(err, fault.RateLimited) {
			t.Fatalf("creation %d %s: %v, want RateLimited", n, what, err)
		}
		return fault.From(err).After()
	}
}

func creationsOverLimit(t testing.TB, w Fixture) {
	org, other := w.TenantWithoutRecord(t, "org_"+ID()), w.Tenant(t, plan.Enterprise)
	store := w.limitedStore(t, Now())
	if _, err := store.Create(org.Ctx, Draft(plan.Hobby)); err != nil {
		t.Fatalf("the first creation of an organization without record: %v", err)
	}
	if err := w.SetPlan(t.Context(), org.ID, plan.Enterprise); err != nil {
		t.Fatal(err)
	}
	equal(t, "wait for the next creation", store.wantCreations(org.Ctx, t, "after the first", 2), 20*time.Second)

	refused := Draft(plan.Hobby)
	_, err := store.Create(org.Ctx, refused)
	e := fault.From(err)
	if want := map[string]any{"limit": "creations", "max": 3, "window_seconds": 60.0}; e == nil ||
		e.Code != "rate_limited" || !reflect.DeepEqual(e.Meta, want) {
		t.Errorf("a creation over the limit: %+v, want rate_limited with %v", e, want)
	}
	decision, ok := ratelimit.Refusal(err)
	equal(t, "the refusal has a decision", ok, true)
	equal(t, "RateLimit of the refusal", decision.Header(), `"creations";r=0;t=20`)
	equal(t, "RateLimit-Policy of the refusal", decision.Policy(), `"creations";q=3;w=60`)
	equal(t, "agents in the usage", org.Usage().Agents, 3)
	equal(t, "audit entries of the store", len(org.Entries()), 3)
	equal(t, "nudges of the refused agent", w.Nudges.Count(refused.ID), 0)

	store.wantCreations(other.Ctx, t, "of another organization", 3)
	store.now = store.now.Add(20*time.Second - time.Microsecond)
	store.wantCreations(org.Ctx, t, "just before the wait is over", 0)
	store.now = store.now.Add(time.Microsecond)
	store.wantCreations(org.Ctx, t, "after the wait", 1)
	store.now = store.now.Add(time.Hour)
	store.wantCreations(org.Ctx, t, "after an hour", 3)
}

func creationsWithoutLimit(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Enterprise)
	store := w.Limited(t, ratelimit.Limit{}, Now)
	for range 12 {
		if _, err := store.Create(org.Ctx, Draft(plan.Hobby)); err != nil {
			t.Fatal(err)
		}
	}
}

// creationsOfTwoProcesses sends more creations than the limit to two processes concurrently.
func creationsOfTwoProcesses(t testing.TB, w Fixture) {
	const creators = 10
	org, at := w.Tenant(t, plan.Enterprise), Now()
	stores := []agent.Store{w.limitedStore(t, at), w.limitedStore(t, at)}
	errs := make([]error, creators)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { _, errs[i] = stores[i%len(stores)].Create(org.Ctx, Draft(plan.Hobby)) })
	}
	all.Wait()
	succeeded := 0
	for i, err := range errs {
		switch {
		case err == nil:
			succeeded++
		case !fault.Is(err, fault.RateLimited):
			t.Errorf("creator %d: %v, want success or RateLimited", i, err)
		}
	}
	equal(t, "creations of two processes", succeeded, 3)
	equal(t, "agents in the usage", org.Usage().Agents, 3)
}

func repeatedCreationsDoNotCount(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Enterprise)
	store := w.limitedStore(t, Now())
	var first agent.Agent
	create := func(want bool) {
		t.Helper()
		ctx, attempt := org.Attempt("k", "create")
		a, err := store.Create(ctx, Draft(plan.Hobby))
		if err != nil || attempt.Replayed() != want {
			t.Fatalf("Create: %v, replayed %t, want %t", err, attempt.Replayed(), want)
		}
		if !want {
			first = a
		}
		wantSameAnswer(t, a, first)
	}
	create(false)
	for range 4 {
		create(true)
	}
	store.wantCreations(org.Ctx, t, "after the repeats", 2)
	create(true) // over the limit
	ctx, attempt := org.Attempt("another", "create")
	_, err := store.Create(ctx, Draft(plan.Hobby))
	equal(t, "a new request over the limit is refused", fault.Is(err, fault.RateLimited), true)
	equal(t, "Used of the refused request's key", attempt.Used(), false)
	store.now = store.now.Add(20 * time.Second)
	ctx, attempt = org.Attempt("another", "create")
	if _, err := store.Create(ctx, Draft(plan.Hobby)); err != nil || attempt.Replayed() {
		t.Errorf("the refused request again: %v, replayed %t, want a first answer", err, attempt.Replayed())
	}
}

func refusedCreationsDoNotCount(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Hobby)
	store := w.limitedStore(t, Now())
	wantRefused := func(what string) {
		t.Helper()
		if _, err := store.Create(org.Ctx, Draft(plan.Hobby)); !fault.Is(err, fault.PaymentRequired) {
			t.Errorf("creation %s: %v, want PaymentRequired", what, err)
		}
	}
	for n := range 3 {
		a, err := store.Create(org.Ctx, Draft(plan.Hobby))
		if err != nil {
			t.Fatalf("creation %d: %v", n, err)
		}
		for range 4 {
			wantRefused("without room")
		}
		if n < 2 {
			org.change(a.ID, act(agent.Delete))
		}
	}
	wantRefused("without room and over the limit")
	if err := w.SetPlan(t.Context(), org.ID, plan.Pro); err != nil {
		t.Fatal(err)
	}
	store.wantCreations(org.Ctx, t, "after three creations", 0)
}

// changesKeepCreations changes the organization's record in other ways after the limit is reached.
func changesKeepCreations(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Enterprise)
	store := w.limitedStore(t, Now())
	var agents []agent.Agent
	for range threePerMinute().Quota {
		a, err := store.Create(org.Ctx, Draft(plan.Hobby))
		if err != nil {
			t.Fatal(err)
		}
		agents = append(agents, a)
	}
	org.change(agents[0].ID, act(agent.Stop))
	org.change(agents[0].ID, act(agent.Start))
	org.change(agents[1].ID, act(agent.Delete))
	if err := w.Records.Remove(t.Context(), agents[2], agent.Deletion{}); err != nil {
		t.Fatal(err)
	}
	equal(t, "usage", org.Usage(), sum(agents[0]))
	equal(t, "wait for the next creation", store.wantCreations(org.Ctx, t, "after the changes", 0), 20*time.Second)
}

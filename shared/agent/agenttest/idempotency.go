package agenttest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/plan"
)

// idempotencyTests are the promises to requests with an Idempotency-Key.
func idempotencyTests() map[string]func(*testing.T, World) {
	return map[string]func(*testing.T, World){
		"a repeated creation":             repeatedCreation,
		"a repeated change":               repeatedChange,
		"a repeated change of nothing":    repeatedNothing,
		"a key of another request":        reusedKey,
		"a failed request frees its key":  failedRequest,
		"keys of several organizations":   foreignKey,
		"a race for a key":                raceForKey,
		"a change that is made anew":      changeAnew,
		"several changes of one request":  severalChanges,
		"a repeat after the agent's end":  repeatAfterEnd,
		"a repeat when there is no room":  repeatWithoutRoom,
		"a key that is kept has no value": keptValues,
	}
}

// Attempt makes the context of a request with a key, and its attempt. what stands for all that makes it another
// request.
func (n Tenant) Attempt(key, what string) (context.Context, *idempotency.Attempt) {
	a := idempotency.New(n.ID, key, idempotency.Request{Method: "POST", Path: "/test", Body: []byte(what)})
	return idempotency.With(n.Ctx, a), a
}

// unseen is the record without what a repeated answer needs not have.
func unseen(a agent.Agent) agent.Agent {
	a.Env = slices.Clone(a.Env)
	for i := range a.Env {
		a.Env[i].Value = ""
	}
	return a
}

// same fails the test when a repeat got another record than the first request.
func same(t *testing.T, got, first agent.Agent) {
	t.Helper()
	if !reflect.DeepEqual(unseen(got), unseen(first)) {
		t.Errorf("the repeat got another record:\n got %+v\nwant %+v", got, first)
	}
}

func repeatedCreation(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	ctx, attempt := org.Attempt("k", "create")
	first, err := w.Store.Create(ctx, Draft(plan.Hobby))
	if err != nil || attempt.Replayed() || !attempt.Used() {
		t.Fatalf("the first request: replayed %t, used %t, %v", attempt.Replayed(), attempt.Used(), err)
	}
	org.change(first.ID, act(agent.Stop))
	for range 2 {
		ctx, attempt = org.Attempt("k", "create")
		draft := Draft(plan.Hobby)
		got, err := w.Store.Create(ctx, draft)
		if err != nil || !attempt.Replayed() {
			t.Fatalf("a repeat: replayed %t, %v", attempt.Replayed(), err)
		}
		same(t, got, first)
		if n := w.Nudges.Count(draft.ID); n != 0 {
			t.Errorf("%d nudges for an agent that was not created", n)
		}
	}
	if agents := listAll(t, w.Store, org.Ctx, agent.Filter{}, 10); len(agents) != 1 ||
		org.Usage() != sum(t, agents...) {
		t.Errorf("%d agents and usage %+v, want one agent", len(agents), org.Usage())
	}
	if n := len(org.Entries()); n != 2 {
		t.Errorf("%d audit entries, want those of the creation and of the change", n)
	}
	if n := w.Nudges.Count(first.ID); n != 2 {
		t.Errorf("%d nudges, want those of the creation and of the change", n)
	}
}

func repeatedChange(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Hobby)
	ctx, _ := org.Attempt("k", "stop")
	first, err := w.Store.Change(ctx, a.ID, act(agent.Stop))
	if err != nil {
		t.Fatal(err)
	}
	later := org.change(a.ID, act(agent.Start))
	ctx, attempt := org.Attempt("k", "stop")
	got, err := w.Store.Change(ctx, a.ID, func(*agent.Agent) error {
		t.Error("a repeat was carried out")
		return nil
	})
	if err != nil || !attempt.Replayed() {
		t.Fatalf("the repeat: replayed %t, %v", attempt.Replayed(), err)
	}
	same(t, got, first)
	if now := org.load(a.ID); !reflect.DeepEqual(now, later) || now.EntityTag() == got.EntityTag() {
		t.Errorf("the repeat changed the agent:\n got %+v\nwant %+v", now, later)
	}
	if n := len(org.Entries()); n != 3 {
		t.Errorf("%d audit entries, want 3", n)
	}
}

func repeatedNothing(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Hobby)
	ctx, attempt := org.Attempt("k", "start")
	first, err := w.Store.Change(ctx, a.ID, act(agent.Start))
	if err != nil || attempt.Replayed() || !reflect.DeepEqual(first, a) {
		t.Fatalf("a target that is reached: replayed %t, %+v, %v", attempt.Replayed(), first, err)
	}
	if n := len(org.Entries()); n != 1 {
		t.Errorf("%d audit entries, want that of the creation only", n)
	}
	stopped := org.change(a.ID, act(agent.Stop))
	ctx, attempt = org.Attempt("k", "start")
	got, err := w.Store.Change(ctx, a.ID, act(agent.Start))
	if err != nil || !attempt.Replayed() {
		t.Fatalf("the repeat: replayed %t, %v", attempt.Replayed(), err)
	}
	same(t, got, first)
	if now := org.load(a.ID); !reflect.DeepEqual(now, stopped) {
		t.Errorf("the repeat of a request that had nothing to do did something: %+v", now)
	}
}

func reusedKey(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	ctx, _ := org.Attempt("k", "one")
	a, err := w.Store.Create(ctx, Draft(plan.Hobby))
	if err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func(context.Context) error{
		"create": func(ctx context.Context) error { _, err := w.Store.Create(ctx, Draft(plan.Hobby)); return err },
		"change": func(ctx context.Context) error { _, err := w.Store.Change(ctx, a.ID, act(agent.Stop)); return err },
		"change of an unknown agent": func(ctx context.Context) error {
			_, err := w.Store.Change(ctx, ID(), act(agent.Stop))
			return err
		},
	} {
		ctx, attempt := org.Attempt("k", "another")
		if err := do(ctx); !fault.Is(err, fault.Invalid) || fault.Code(err) != "idempotency_key_reused" ||
			attempt.Replayed() {
			t.Errorf("%s: replayed %t, %v; want idempotency_key_reused", name, attempt.Replayed(), err)
		}
	}
	if agents := listAll(t, w.Store, org.Ctx, agent.Filter{}, 10); len(agents) != 1 ||
		!reflect.DeepEqual(agents[0], a) {
		t.Errorf("a refused request did something: %+v", agents)
	}
}

func failedRequest(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Hobby)
	refusal := errors.New("refused")
	for i, want := range []error{refusal, refusal, nil} {
		ctx, attempt := org.Attempt("k", "change")
		got, err := w.Store.Change(ctx, a.ID, func(a *agent.Agent) error {
			a.Name = "changed"
			return want
		})
		if !errors.Is(err, want) || attempt.Replayed() || attempt.Used() != (want == nil) {
			t.Errorf("try %d: replayed %t, %+v, %v", i, attempt.Replayed(), got, err)
		}
	}
	if got := org.load(a.ID); got.Name != "changed" {
		t.Errorf("the agent is called %s", got.Name)
	}
}

func foreignKey(t *testing.T, w World) {
	first, second := w.Tenant(t, plan.Pro), w.Tenant(t, plan.Pro)
	var ids []string
	for _, org := range []Tenant{first, second} {
		ctx, attempt := org.Attempt("k", "create")
		a, err := w.Store.Create(ctx, Draft(plan.Hobby))
		if err != nil || attempt.Replayed() || a.OrganizationID != org.ID {
			t.Errorf("replayed %t, %+v, %v", attempt.Replayed(), a, err)
		}
		ids = append(ids, a.ID)
	}
	for _, id := range ids { // another's first: once the key has an answer, the same request is given it
		ctx, _ := second.Attempt("k2", "stop")
		_, err := w.Store.Change(ctx, id, act(agent.Stop))
		if own := second.load(id).OrganizationID == second.ID; own != (err == nil) || !own &&
			!reflect.DeepEqual(fault.From(err), agent.NotFound()) {
			t.Errorf("an agent of the own organization (%t): %v", own, err)
		}
		if err != nil {
			continue
		}
		// The key now answers, but the answer is nothing to the other organization.
		ctx, _ = first.Attempt("k2", "stop")
		if _, err := w.Store.Change(ctx, id, act(agent.Stop)); !reflect.DeepEqual(fault.From(err), agent.NotFound()) {
			t.Errorf("another's agent with another's key: %v, want not found", err)
		}
	}
}

func raceForKey(t *testing.T, w World) {
	const clients, rounds = 10, 5
	org := w.Tenant(t, plan.Enterprise)
	for round := range rounds {
		key := ID()
		got, errs, replays := make([]agent.Agent, clients), make([]error, clients), make([]bool, clients)
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() {
				ctx, attempt := org.Attempt(key, "create")
				got[i], errs[i] = w.Store.Create(ctx, Draft(plan.Hobby))
				replays[i] = attempt.Replayed()
			})
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		for _, a := range got {
			same(t, a, got[0])
		}
		if firsts := len(slices.DeleteFunc(replays, func(replayed bool) bool { return replayed })); firsts != 1 {
			t.Errorf("round %d: %d requests were the first", round, firsts)
		}
		if agents := listAll(t, w.Store, org.Ctx, agent.Filter{}, 100); len(agents) != round+1 ||
			org.Usage() != sum(t, agents...) {
			t.Errorf("round %d: %d agents and usage %+v, want one more", round, len(agents), org.Usage())
		}
	}
}

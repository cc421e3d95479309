package agenttest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/plan"
)

// idempotencyTests check the promises to requests with an Idempotency-Key.
func idempotencyTests() map[string]func(testing.TB, Fixture) {
	return map[string]func(testing.TB, Fixture){
		"repeated creation gets the first answer":     repeatedCreation,
		"repeated change gets the first answer":       repeatedChange,
		"repeated empty change gets the first answer": repeatedEmptyChange,
		"key of another request is refused":           reusedKey,
		"failed request frees its key":                failedRequest,
		"organizations may use the same key":          sameKeyOfTwoOrganizations,
		"concurrent requests with one key":            raceForKey,
		"change whose answer may not be stored":       unstoredAnswer,
		"several changes of one request":              severalChanges,
		"repeat after the agent is gone":              repeatAfterRemoval,
		"repeat when the plan has no room":            repeatWithoutRoom,
		"stored answer holds no values":               storedAnswerHoldsNoValues,
	}
}

// Attempt makes the context and the attempt of a request with a key. Two requests with the same body are repeats.
func (n Tenant) Attempt(key, body string) (context.Context, *idempotency.Attempt) {
	a := idempotency.New(n.ID, key, idempotency.Request{Method: "POST", Path: "/test", Body: []byte(body)})
	return call.Derive(n.Ctx, func(c *call.Call) { c.Attempt = a }), a
}

// withoutValues is the record without the values that a stored answer does not hold.
func withoutValues(a agent.Agent) agent.Agent {
	a.Env = slices.Clone(a.Env)
	for i := range a.Env {
		a.Env[i].Value = ""
	}
	return a
}

// wantSameAnswer reports a repeat whose record differs from that of the first request.
func wantSameAnswer(t testing.TB, got, first agent.Agent) {
	t.Helper()
	sameRecord(t, "the record that the repeat got", withoutValues(got), withoutValues(first))
}

// wantReplay checks that a repeat got the answer to the first request.
func wantReplay(t testing.TB, attempt *idempotency.Attempt, err error, got, first agent.Agent) {
	t.Helper()
	if err != nil || !attempt.Replayed() {
		t.Fatalf("the repeat: replayed %t, error %v, want a replay", attempt.Replayed(), err)
	}
	wantSameAnswer(t, got, first)
}

func repeatedCreation(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	ctx, attempt := org.Attempt("k", "create")
	first, err := w.Store.Create(ctx, Draft(plan.Hobby))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "Replayed of the first request", attempt.Replayed(), false)
	equal(t, "Used of the first request", attempt.Used(), true)
	org.change(first.ID, act(agent.Stop))
	for range 2 {
		ctx, attempt = org.Attempt("k", "create")
		draft := Draft(plan.Hobby)
		got, err := w.Store.Create(ctx, draft)
		wantReplay(t, attempt, err, got, first)
		equal(t, "nudges of the agent that the repeat did not create", w.Nudges.Count(draft.ID), 0)
	}
	agents := listAll(t, w.Store, org.Ctx, agent.Filter{}, 10)
	equal(t, "number of agents", len(agents), 1)
	equal(t, "usage", org.Usage(), sum(agents...))
	equal(t, "audit entries (of the creation and the change)", len(org.Entries()), 2)
	equal(t, "nudges (of the creation and the change)", w.Nudges.Count(first.ID), 2)
}

func repeatedChange(t testing.TB, w Fixture) {
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
		t.Error("Change ran the closure of a repeat")
		return nil
	})
	wantReplay(t, attempt, err, got, first)
	present := org.load(a.ID)
	sameRecord(t, "the record after the repeat", present, later)
	equal(t, "the repeat's entity tag is the present one", got.EntityTag() == present.EntityTag(), false)
	equal(t, "number of audit entries", len(org.Entries()), 3)
}

func repeatedEmptyChange(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Hobby)
	ctx, attempt := org.Attempt("k", "start")
	first, err := w.Store.Change(ctx, a.ID, act(agent.Start))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "Replayed of the first request", attempt.Replayed(), false)
	sameRecord(t, "the answer to an action that is already satisfied", first, a)
	equal(t, "audit entries (one of the creation)", len(org.Entries()), 1)
	stopped := org.change(a.ID, act(agent.Stop))
	ctx, attempt = org.Attempt("k", "start")
	got, err := w.Store.Change(ctx, a.ID, act(agent.Start))
	wantReplay(t, attempt, err, got, first)
	sameRecord(t, "the record after the repeat of an empty change", org.load(a.ID), stopped)
}

func reusedKey(t testing.TB, w Fixture) {
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
			t.Errorf("%s with another request's key: replayed %t, error %v, want idempotency_key_reused", name,
				attempt.Replayed(), err)
		}
	}
	agents := listAll(t, w.Store, org.Ctx, agent.Filter{}, 10)
	if want := []agent.Agent{a}; !reflect.DeepEqual(agents, want) {
		t.Errorf("agents after the refused requests:\n got %+v\nwant %+v", agents, want)
	}
}

func failedRequest(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Hobby)
	refusal := errors.New("refused")
	for i, want := range []error{refusal, refusal, nil} {
		ctx, attempt := org.Attempt("k", "change")
		_, err := w.Store.Change(ctx, a.ID, func(a *agent.Agent) error {
			a.Name = "changed"
			return want
		})
		try := fmt.Sprintf("try %d: ", i)
		if !errors.Is(err, want) {
			t.Errorf("%serror %v, want %v", try, err, want)
		}
		equal(t, try+"Replayed", attempt.Replayed(), false)
		equal(t, try+"Used", attempt.Used(), want == nil)
	}
	equal(t, "Name", org.load(a.ID).Name, "changed")
}

func sameKeyOfTwoOrganizations(t testing.TB, w Fixture) {
	first, second := w.Tenant(t, plan.Pro), w.Tenant(t, plan.Pro)
	var ids []string
	for _, org := range []Tenant{first, second} {
		ctx, attempt := org.Attempt("k", "create")
		a, err := w.Store.Create(ctx, Draft(plan.Hobby))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "Replayed", attempt.Replayed(), false)
		equal(t, "organization of the created agent", a.OrganizationID, org.ID)
		ids = append(ids, a.ID)
	}
	// The first organization's agent comes first: once the key has an answer, a repeat gets that answer.
	ctx, _ := second.Attempt("k2", "stop")
	if _, err := w.Store.Change(ctx, ids[0], act(agent.Stop)); !reflect.DeepEqual(fault.From(err), agent.NotFound()) {
		t.Errorf("Change of another organization's agent: %v, want NotFound", err)
	}
	ctx, _ = second.Attempt("k2", "stop")
	if _, err := w.Store.Change(ctx, ids[1], act(agent.Stop)); err != nil {
		t.Errorf("Change of the organization's own agent: %v", err)
	}
	// The key now has an answer, which the other organization must not get.
	ctx, _ = first.Attempt("k2", "stop")
	if _, err := w.Store.Change(ctx, ids[1], act(agent.Stop)); !reflect.DeepEqual(fault.From(err), agent.NotFound()) {
		t.Errorf("Change of another organization's agent with its key: %v, want NotFound", err)
	}
}

func raceForKey(t testing.TB, w Fixture) {
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
			wantSameAnswer(t, a, got[0])
		}
		firsts := slices.DeleteFunc(replays, func(replayed bool) bool { return replayed })
		agents := listAll(t, w.Store, org.Ctx, agent.Filter{}, 100)
		name := fmt.Sprintf("round %d: ", round)
		equal(t, name+"requests that were not replays", len(firsts), 1)
		equal(t, name+"number of agents", len(agents), round+1)
		equal(t, name+"usage", org.Usage(), sum(agents...))
	}
}

package agenttest

import (
	"fmt"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

// unstoredAnswer changes an agent by requests whose answers may not be stored, such as those with credentials. Each
// repeat runs again and is audited again, but other requests can't use the key.
func unstoredAnswer(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Hobby)
	for want := range 3 {
		ctx, attempt := org.Attempt("k", "reveal")
		call.From(ctx).Attempt.DiscardAnswer()
		got, err := w.Store.Change(ctx, a.ID, func(a *agent.Agent) error {
			a.Rollout++
			return nil
		})
		try := fmt.Sprintf("try %d: ", want)
		if err != nil {
			t.Errorf("%s%v", try, err)
		}
		equal(t, try+"Replayed", attempt.Replayed(), want > 0)
		equal(t, try+"Rollout", got.Rollout, int64(want+1))
	}
	equal(t, "audit entries (of the creation and three changes)", len(org.Entries()), 4)
	for name, apply := range map[string]func(*agent.Agent) error{
		"nothing": func(*agent.Agent) error { return nil },
		"stop":    act(agent.Stop),
	} {
		ctx, _ := org.Attempt("k", "reveal another")
		call.From(ctx).Attempt.DiscardAnswer()
		if _, err := w.Store.Change(ctx, a.ID, apply); fault.Code(err) != "idempotency_key_reused" {
			t.Errorf("%s with another request's key = %v, want idempotency_key_reused", name, err)
		}
	}
	ctx, attempt := org.Attempt("k", "reveal")
	call.From(ctx).Attempt.DiscardAnswer()
	got, err := w.Store.Change(ctx, a.ID, func(*agent.Agent) error { return nil })
	if err != nil {
		t.Errorf("repeat with an empty change: %v", err)
	}
	equal(t, "Replayed of the repeat with an empty change", attempt.Replayed(), true)
	equal(t, "Rollout of the repeat with an empty change", got.Rollout, 3)
}

// severalChanges changes an agent twice in one request: the second change must not count as a repeat of the first.
func severalChanges(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Hobby)
	ctx, attempt := org.Attempt("k", "two changes")
	for want := range 2 {
		got, err := w.Store.Change(ctx, a.ID, func(a *agent.Agent) error {
			a.Rollout++
			return nil
		})
		if err != nil {
			t.Errorf("change %d: %v", want, err)
		}
		equal(t, fmt.Sprintf("Rollout after change %d", want), got.Rollout, int64(want+1))
	}
	equal(t, "Replayed after the second change", attempt.Replayed(), false)
	ctx, attempt = org.Attempt("k", "two changes")
	got, err := w.Store.Change(ctx, a.ID, act(agent.Stop))
	if err != nil {
		t.Errorf("the repeat: %v", err)
	}
	equal(t, "Rollout of the repeat, which gets the answer to the first change,", got.Rollout, 1)
	equal(t, "Replayed of the repeat", attempt.Replayed(), true)
}

func repeatAfterRemoval(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Hobby)
	ctx, _ := org.Attempt("k", "delete")
	first, err := w.Store.Change(ctx, a.ID, act(agent.Delete))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Records.Remove(org.Ctx, first, agent.Deletion{}); err != nil {
		t.Fatal(err)
	}
	ctx, attempt := org.Attempt("k", "delete")
	got, err := w.Store.Change(ctx, a.ID, act(agent.Delete))
	wantReplay(t, attempt, err, got, first)
	ctx, _ = org.Attempt("another", "delete")
	if _, err := w.Store.Change(ctx, a.ID, act(agent.Delete)); !fault.Is(err, fault.NotFound) {
		t.Errorf("delete with another key: %v, want NotFound", err)
	}
}

func repeatWithoutRoom(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Hobby)
	ctx, _ := org.Attempt("k", "create")
	first, err := w.Store.Create(ctx, Draft(plan.Hobby))
	if err != nil {
		t.Fatal(err)
	}
	ctx, attempt := org.Attempt("k", "create")
	got, err := w.Store.Create(ctx, Draft(plan.Hobby))
	wantReplay(t, attempt, err, got, first)
	ctx, _ = org.Attempt("another", "create")
	if _, err := w.Store.Create(ctx, Draft(plan.Hobby)); !fault.Is(err, fault.PaymentRequired) {
		t.Errorf("create with another key: %v, want PaymentRequired", err)
	}
}

// storedAnswerHoldsNoValues wants a repeat without the plain values of the environment: no answer shows them, so they
// are not stored.
func storedAnswerHoldsNoValues(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	for _, want := range []string{"plain-value", ""} {
		ctx, _ := org.Attempt("k", "create")
		a, err := w.Store.Create(ctx, Draft(plan.Hobby))
		if err != nil || len(a.Env) != 2 {
			t.Fatalf("Create = %d variables, error %v, want 2", len(a.Env), err)
		}
		equal(t, "value of the plain variable", a.Env[0].Value, want)
		equal(t, "version of the secret", a.Env[1].SecretVersion, 3)
	}
}

package agenttest

import (
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/plan"
)

// changeAnew: what may not be kept is done each time, and recorded each time; the key is refused to others
// nevertheless.
func changeAnew(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Hobby)
	for want := range 3 {
		ctx, attempt := org.Attempt("k", "reveal")
		idempotency.DiscardAnswer(ctx)
		got, err := w.Store.Change(ctx, a.ID, func(a *agent.Agent) error {
			a.Rollout++
			return nil
		})
		if err != nil || attempt.Replayed() != (want > 0) || got.Rollout != int64(want+1) {
			t.Errorf("try %d: replayed %t, rollout %d, %v", want, attempt.Replayed(), got.Rollout, err)
		}
	}
	if n := len(org.Entries()); n != 4 {
		t.Errorf("%d audit entries, want that of the creation and three of the changes", n)
	}
	for name, apply := range map[string]func(*agent.Agent) error{
		"nothing":  func(*agent.Agent) error { return nil },
		"a change": act(agent.Stop),
	} {
		ctx, _ := org.Attempt("k", "reveal another")
		idempotency.DiscardAnswer(ctx)
		if _, err := w.Store.Change(ctx, a.ID, apply); fault.Code(err) != "idempotency_key_reused" {
			t.Errorf("%s with another request's key: %v, want idempotency_key_reused", name, err)
		}
	}
	ctx, attempt := org.Attempt("k", "reveal")
	idempotency.DiscardAnswer(ctx)
	if got, err := w.Store.Change(ctx, a.ID, func(*agent.Agent) error { return nil }); err != nil ||
		!attempt.Replayed() || got.Rollout != 3 {
		t.Errorf("a repeat that changes nothing: replayed %t, %+v, %v", attempt.Replayed(), got, err)
	}
}

// severalChanges: the first change of a request has its key, and the next one is not taken for its repeat.
func severalChanges(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Hobby)
	ctx, attempt := org.Attempt("k", "two changes")
	for want := range 2 {
		got, err := w.Store.Change(ctx, a.ID, func(a *agent.Agent) error {
			a.Rollout++
			return nil
		})
		if err != nil || got.Rollout != int64(want+1) {
			t.Errorf("change %d: %+v, %v", want, got, err)
		}
	}
	if attempt.Replayed() {
		t.Error("the second change was taken for a repeat of the first")
	}
	ctx, attempt = org.Attempt("k", "two changes")
	if got, err := w.Store.Change(ctx, a.ID, act(agent.Stop)); err != nil || got.Rollout != 1 || !attempt.Replayed() {
		t.Errorf("the repeat: %+v, %v; want the answer to the first change", got, err)
	}
}

func repeatAfterEnd(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Hobby)
	ctx, _ := org.Attempt("k", "delete")
	first, err := w.Store.Change(ctx, a.ID, act(agent.Delete))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Records.Remove(org.Ctx, first); err != nil {
		t.Fatal(err)
	}
	ctx, attempt := org.Attempt("k", "delete")
	got, err := w.Store.Change(ctx, a.ID, act(agent.Delete))
	if err != nil || !attempt.Replayed() {
		t.Fatalf("the repeat: replayed %t, %v", attempt.Replayed(), err)
	}
	same(t, got, first)
	ctx, _ = org.Attempt("another", "delete")
	if _, err := w.Store.Change(ctx, a.ID, act(agent.Delete)); !fault.Is(err, fault.NotFound) {
		t.Errorf("another request: %v, want not found", err)
	}
}

func repeatWithoutRoom(t *testing.T, w World) {
	org := w.Tenant(t, plan.Hobby)
	ctx, _ := org.Attempt("k", "create")
	first, err := w.Store.Create(ctx, Draft(plan.Hobby))
	if err != nil {
		t.Fatal(err)
	}
	ctx, attempt := org.Attempt("k", "create")
	got, err := w.Store.Create(ctx, Draft(plan.Hobby))
	if err != nil || !attempt.Replayed() {
		t.Fatalf("the repeat: replayed %t, %v", attempt.Replayed(), err)
	}
	same(t, got, first)
	ctx, _ = org.Attempt("another", "create")
	if _, err := w.Store.Create(ctx, Draft(plan.Hobby)); !fault.Is(err, fault.PaymentRequired) {
		t.Errorf("another request: %v, want no room", err)
	}
}

// keptValues: plain values of the environment are shown by no answer, so they are not kept for one.
func keptValues(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	for _, want := range []string{"plain-value", ""} {
		ctx, _ := org.Attempt("k", "create")
		a, err := w.Store.Create(ctx, Draft(plan.Hobby))
		if err != nil || len(a.Env) != 2 || a.Env[0].Value != want || a.Env[1].SecretVersion != 3 {
			t.Errorf("the environment is %+v, %v; want the value %q", a.Env, err, want)
		}
	}
}

package agenttest

import (
	"context"
	"strconv"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

// awaitTests check the promises of Await.
func awaitTests() map[string]func(testing.TB, Fixture) {
	return map[string]func(testing.TB, Fixture){
		"await returns if the condition holds already":     awaitHoldsAlready,
		"await returns after the change":                   awaitChange,
		"await returns the present agent if canceled":      awaitCanceled,
		"await reads the agent if canceled before":         awaitCanceledBefore,
		"await fails if the agent is removed":              awaitRemoval,
		"await does not find another organization's agent": awaitTenancy,
		"await never goes back to an older state":          awaitEveryState,
	}
}

func isPaused(a agent.Agent) bool { return a.Status == agent.Paused }

// watchCalls wraps a condition so that it sends each agent that it is called with to a channel.
func watchCalls(holds func(agent.Agent) bool) (func(agent.Agent) bool, <-chan agent.Agent) {
	calls := make(chan agent.Agent, 100)
	return func(a agent.Agent) bool {
		calls <- a
		return holds(a)
	}, calls
}

// answer is what Await returned.
type answer struct {
	agent agent.Agent
	err   error
}

func answerOf(a *agent.Agent, err error) answer {
	if a == nil {
		return answer{err: err}
	}
	return answer{*a, err}
}

// startAwait runs Await in a goroutine.
func (n Tenant) startAwait(ctx context.Context, id string, holds func(agent.Agent) bool) <-chan answer {
	answered := make(chan answer, 1)
	go func() {
		answered <- answerOf(n.fixture.Store.Await(ctx, id, holds))
	}()
	return answered
}

func awaitHoldsAlready(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Hobby)
	wantVersion(t, answerOf(w.Store.Await(org.Ctx, a.ID, func(agent.Agent) bool { return true })), a.Version)
}

// wantVersion checks that Await returned the agent of a version.
func wantVersion(t testing.TB, got answer, want string) {
	t.Helper()
	if got.err != nil || got.agent.Version != want {
		t.Errorf("Await = version %s, error %v, want version %s", got.agent.Version, got.err, want)
	}
}

// awaitChange wants one call of the condition for each state: Await does not poll.
func awaitChange(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Hobby)
	holds, calls := watchCalls(isPaused)
	answered := org.startAwait(org.Ctx, a.ID, holds)
	equal(t, "version in the first call of the condition", (<-calls).Version, a.Version)
	changed := org.change(a.ID, func(a *agent.Agent) error { a.Status = agent.Paused; return nil })
	wantVersion(t, <-answered, changed.Version)
	equal(t, "calls of the condition after the change", len(calls), 1)
}

func awaitCanceled(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Hobby)
	ctx, cancel := context.WithCancel(org.Ctx)
	holds, calls := watchCalls(isPaused)
	answered := org.startAwait(ctx, a.ID, holds)
	<-calls
	changed := org.change(a.ID, func(a *agent.Agent) error { a.Name = "another"; return nil })
	<-calls
	cancel()
	wantVersion(t, <-answered, changed.Version)
}

func awaitCanceledBefore(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Hobby)
	ctx, cancel := context.WithCancel(org.Ctx)
	cancel()
	wantVersion(t, answerOf(w.Store.Await(ctx, a.ID, isPaused)), a.Version)
}

func awaitRemoval(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Hobby)
	holds, calls := watchCalls(isPaused)
	answered := org.startAwait(org.Ctx, a.ID, holds)
	<-calls
	if err := w.Records.Remove(org.Ctx, a, agent.Deletion{}); err != nil {
		t.Fatal(err)
	}
	if got := <-answered; !fault.Is(got.err, fault.NotFound) {
		t.Errorf("Await of a removed agent: error %v, want NotFound", got.err)
	}
}

func awaitTenancy(t testing.TB, w Fixture) {
	owner, other := w.Tenant(t, plan.Pro), w.Tenant(t, plan.Pro)
	a := owner.Create(plan.Hobby)
	for _, id := range []string{a.ID, ID(), "", "..", "a/b"} {
		_, err := w.Store.Await(other.Ctx, id, func(agent.Agent) bool {
			t.Errorf("Await of %q showed the agent to another organization's condition", id)
			return true
		})
		if fault.From(err).Error() != agent.NotFound().Error() {
			t.Errorf("Await of %q by another organization: error %v, want NotFound", id, err)
		}
	}
}

// awaitEveryState wants the condition to see states in the order of their commits, each at most once. The changes are
// visible to clients, because others may go unnoticed.
func awaitEveryState(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Hobby)
	ctx, cancel := context.WithTimeout(org.Ctx, time.Minute)
	defer cancel()
	var generations []int64
	answered := org.startAwait(ctx, a.ID, func(a agent.Agent) bool {
		generations = append(generations, a.Generation)
		return a.Generation >= 10
	})
	for org.load(a.ID).Generation < 10 {
		org.change(a.ID, func(a *agent.Agent) error {
			a.Generation++
			a.Name = strconv.FormatInt(a.Generation, 10)
			return nil
		})
	}
	if got := <-answered; got.err != nil || got.agent.Generation != 10 {
		t.Fatalf("Await = generation %d, error %v, want generation 10", got.agent.Generation, got.err)
	}
	for i := 1; i < len(generations); i++ {
		if generations[i] <= generations[i-1] {
			t.Errorf("the condition saw the generations %v, want them rising", generations)
		}
	}
}

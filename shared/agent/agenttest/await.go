package agenttest

import (
	"context"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

// awaitTests are the promises of Await.
func awaitTests() map[string]func(*testing.T, World) {
	return map[string]func(*testing.T, World){
		"await what holds":              awaitPresent,
		"await a change":                awaitChange,
		"await in vain":                 awaitInVain,
		"await without time":            awaitWithoutTime,
		"await an agent that goes away": awaitRemoval,
		"await another organization's":  awaitTenancy,
		"await through many states":     awaitEveryState,
	}
}

func isPaused(a agent.Agent) bool { return a.Status == agent.Paused }

// seen is a condition that tells on a channel that it was asked, and what about.
func seen(holds func(agent.Agent) bool) (func(agent.Agent) bool, <-chan agent.Agent) {
	asked := make(chan agent.Agent, 100)
	return func(a agent.Agent) bool {
		asked <- a
		return holds(a)
	}, asked
}

// answer is what Await returned.
type answer struct {
	agent agent.Agent
	err   error
}

// await waits for a condition elsewhere.
func (n Tenant) await(ctx context.Context, id string, holds func(agent.Agent) bool) <-chan answer {
	answered := make(chan answer, 1)
	go func() {
		a, err := n.world.Store.Await(ctx, id, holds)
		answered <- answer{a, err}
	}()
	return answered
}

func awaitPresent(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Hobby)
	got, err := w.Store.Await(org.Ctx, a.ID, func(agent.Agent) bool { return true })
	if err != nil || got.Version != a.Version {
		t.Errorf("got %+v, %v, want the agent as it is", got, err)
	}
}

// awaitChange is told of the change without asking again, and of the last state only.
func awaitChange(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Hobby)
	holds, asked := seen(isPaused)
	answered := org.await(org.Ctx, a.ID, holds)
	if first := <-asked; first.Version != a.Version {
		t.Errorf("first asked about %s, want %s", first.Version, a.Version)
	}
	changed := org.change(a.ID, func(a *agent.Agent) error { a.Status = agent.Paused; return nil })
	if got := <-answered; got.err != nil || got.agent.Version != changed.Version {
		t.Errorf("got version %s, %v, want %s", got.agent.Version, got.err, changed.Version)
	}
	if n := len(asked); n != 1 {
		t.Errorf("asked %d more times, want once", n)
	}
}

func awaitInVain(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Hobby)
	ctx, cancel := context.WithCancel(org.Ctx)
	holds, asked := seen(isPaused)
	answered := org.await(ctx, a.ID, holds)
	<-asked
	changed := org.change(a.ID, func(a *agent.Agent) error { a.Name = "another"; return nil })
	<-asked
	cancel()
	if got := <-answered; got.err != nil || got.agent.Version != changed.Version {
		t.Errorf("got version %s, %v, want the agent as it is then", got.agent.Version, got.err)
	}
}

func awaitWithoutTime(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Hobby)
	ctx, cancel := context.WithCancel(org.Ctx)
	cancel()
	got, err := w.Store.Await(ctx, a.ID, isPaused)
	if err != nil || got.Version != a.Version {
		t.Errorf("got %+v, %v, want the agent as it is", got, err)
	}
}

func awaitRemoval(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Hobby)
	holds, asked := seen(isPaused)
	answered := org.await(org.Ctx, a.ID, holds)
	<-asked
	if err := w.Records.Remove(org.Ctx, a); err != nil {
		t.Fatal(err)
	}
	if got := <-answered; !fault.Is(got.err, fault.NotFound) {
		t.Errorf("got %v, want not found", got.err)
	}
}

func awaitTenancy(t *testing.T, w World) {
	owner, other := w.Tenant(t, plan.Pro), w.Tenant(t, plan.Pro)
	a := owner.Create(plan.Hobby)
	for _, id := range []string{a.ID, ID(), "", "..", "a/b"} {
		_, err := w.Store.Await(other.Ctx, id, func(agent.Agent) bool {
			t.Errorf("the condition of another organization saw %q", id)
			return true
		})
		if fault.From(err).Error() != agent.NotFound().Error() {
			t.Errorf("await %q: %v, want not found", id, err)
		}
	}
}

// awaitEveryState is asked about states in the order in which they came, and never goes back.
func awaitEveryState(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Hobby)
	ctx, cancel := context.WithTimeout(org.Ctx, time.Minute)
	defer cancel()
	var generations []int64
	answered := org.await(ctx, a.ID, func(a agent.Agent) bool {
		generations = append(generations, a.Generation)
		return a.Generation >= 10
	})
	for org.load(a.ID).Generation < 10 {
		org.change(a.ID, func(a *agent.Agent) error { a.Generation++; return nil })
	}
	if got := <-answered; got.err != nil || got.agent.Generation != 10 {
		t.Fatalf("got generation %d, %v", got.agent.Generation, got.err)
	}
	for i := 1; i < len(generations); i++ {
		if generations[i] <= generations[i-1] {
			t.Errorf("asked about generations %v: one came late or twice", generations)
		}
	}
}

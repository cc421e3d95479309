package agents_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/functions/agents"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/ratelimit"
)

const waitedID = "0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90"

// unsettled is a store with one agent, which every organization owns and whose status is not steady.
type unsettled struct {
	agent.Store
	agent agent.Agent
	// await runs while a request waits; nil waits until its context ends.
	await func(ctx context.Context)
}

// Get implements agent.Store.
func (s unsettled) Get(context.Context, string) (agent.Agent, error) { return s.agent, nil }

// Await implements agent.Store.
func (s unsettled) Await(ctx context.Context, _ string, _ func(agent.Agent) bool) (*agent.Agent, error) {
	if s.await != nil {
		s.await(ctx)
	}
	<-ctx.Done()
	return &s.agent, nil
}

// waitFixture is the route of an agent that stays unsettled.
type waitFixture struct {
	route function.Route
	slots *ratelimit.Slots
}

func newWaitFixture(await func(context.Context)) waitFixture {
	a := agent.New(waitedID, "cell-1", agent.Draft{Name: "a"}, time.Now())
	slots := ratelimit.NewSlots(ratelimit.StandardSlots(1, 40))
	store := unsettled{agent: a, await: await}
	return waitFixture{route: agents.Get(store, nil, agent.Display{}, slots), slots: slots}
}

// wait calls the route in the background. The answer arrives when the call has ended.
func (f waitFixture) wait(t *testing.T, options ...functiontest.Option) <-chan functiontest.Response {
	t.Helper()
	answer := make(chan functiontest.Response, 1)
	go func() { answer <- f.call(t, options...) }()
	synctest.Wait()
	return answer
}

func (f waitFixture) call(t *testing.T, options ...functiontest.Option) functiontest.Response {
	t.Helper()
	return functiontest.Call(t, f.route, append([]functiontest.Option{
		functiontest.Path("agent_id", waitedID), functiontest.Query(url.Values{"wait": {"55"}}),
	}, options...)...)
}

// wantEarly checks that a call was answered immediately with the present agent.
func (f waitFixture) wantEarly(t *testing.T, as functiontest.Option) {
	t.Helper()
	began := time.Now()
	res := f.call(t, as).Want(t, http.StatusOK, "")
	if took := time.Since(began); took > 0 {
		t.Errorf("the answer took %s, want an immediate one", took)
	}
	if got := res.Header.Get("Retry-After"); got != "5" {
		t.Errorf("Retry-After = %q, want 5", got)
	}
	if res.Text("id") != waitedID || res.Text("status") != string(agent.Provisioning) {
		t.Errorf("body %s, want the present agent", res.Body)
	}
}

func TestWait_BeyondTheSlotsIsAnsweredImmediately(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newWaitFixture(nil)
		began := time.Now()
		as := functiontest.AsMember("org-1")
		var held []<-chan functiontest.Response
		for range 4 {
			held = append(held, f.wait(t, as))
		}
		f.wantEarly(t, as)
		f.wantEarly(t, as)
		others := f.wait(t, functiontest.AsAdmin("org-1"))
		for _, answer := range append(held, others) {
			res := (<-answer).Want(t, http.StatusOK, "")
			if got := res.Header.Get("Retry-After"); got != "" {
				t.Errorf("Retry-After = %q in an answer that waited, want none", got)
			}
		}
		if took := time.Since(began); took != 55*time.Second {
			t.Errorf("the waits took %s, want 55s", took)
		}
	})
}

// TestWait_OfOtherOrganizationsGetsIn holds what one organization can hold, with 50 of its keys.
func TestWait_OfOtherOrganizationsGetsIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newWaitFixture(nil)
		held := 0
		for key := range 50 {
			for range 5 {
				if _, ok := f.slots.Acquire("hostile", fmt.Sprint("api_key ", key)); ok {
					held++
				}
			}
		}
		if held != 20 {
			t.Errorf("one organization holds %d answers, want 20", held)
		}
		f.wantEarly(t, functiontest.AsAdmin("hostile"))
		for i := range 5 {
			began := time.Now()
			(<-f.wait(t, functiontest.AsMember(fmt.Sprint("org-", i)))).Want(t, http.StatusOK, "")
			if took := time.Since(began); took != 55*time.Second {
				t.Errorf("the first wait of organization %d took %s, want 55s", i, took)
			}
		}
	})
}

func TestWait_FreesItsSlotHoweverItEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		await      func(context.Context)
		end        func(cancel, shutdown func())
		wantStatus int
		wantTook   time.Duration
	}{
		"its time is over":     {end: func(_, _ func()) {}, wantStatus: 200, wantTook: 55 * time.Second},
		"the client goes away": {end: func(cancel, _ func()) { cancel() }, wantStatus: 200},
		"shutdown":             {end: func(_, shutdown func()) { shutdown() }, wantStatus: 200},
		"panic": {
			await: func(context.Context) { panic("a defect") }, end: func(_, _ func()) {}, wantStatus: 500,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newWaitFixture(c.await)
			ending, shutdown := context.WithCancel(t.Context())
			defer shutdown()
			ctx, cancel := context.WithCancel(function.WithShutdown(t.Context(), ending))
			defer cancel()
			began := time.Now()
			answer := f.wait(t, functiontest.AsAdmin("org-1"), functiontest.WithContext(ctx))
			if want := 1; c.await == nil && f.slots.Held() != want {
				t.Errorf("%s: %d slots are held during the wait, want %d", name, f.slots.Held(), want)
			}
			c.end(cancel, shutdown)
			if res := <-answer; res.Status != c.wantStatus {
				t.Errorf("%s: status %d, want %d", name, res.Status, c.wantStatus)
			}
			if took := time.Since(began); took != c.wantTook {
				t.Errorf("%s: the answer took %s, want %s", name, took, c.wantTook)
			}
			synctest.Wait()
			if held := f.slots.Held(); held != 0 {
				t.Errorf("%s: %d slots are held after the answer", name, held)
			}
		})
	}
}

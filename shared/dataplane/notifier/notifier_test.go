package notifier

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"agents.example/controlplane/shared/testtier"
)

func TestMain(m *testing.M) {
	testtier.SilenceLogs()
	goleak.VerifyTestMain(m)
}

// topic records nudges. While down is set, it takes none.
type topic struct {
	mu       sync.Mutex
	down     bool
	attempts int
	taken    []string
	// during, if set, is called while a nudge is being published.
	during func(agentID string)
}

// Wake implements Nudger. A nudge that wakes is recorded with an exclamation mark.
func (t *topic) Wake(ctx context.Context, agentID string) error { return t.Nudge(ctx, agentID+"!") }

func (t *topic) Nudge(_ context.Context, agentID string) error {
	if t.during != nil {
		t.during(agentID)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attempts++
	if t.down {
		return errors.New("the topic is not reachable")
	}
	t.taken = append(t.taken, agentID)
	return nil
}

func (t *topic) setDown(down bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.down = down
}

// take returns the nudges since the last call.
func (t *topic) take() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	taken := t.taken
	t.taken = nil
	return taken
}

// run calls a test with a running notifier, in virtual time.
func run(t *testing.T, at *topic, test func(n *Notifier)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := New(at)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { n.Run(ctx) })
		test(n)
		stop()
		running.Wait()
	})
}

func starting() Pod { return Pod{UID: "1"} }
func ready() Pod    { return Pod{UID: "1", Ready: true, Since: time.Now()} }

// expect checks the nudges after a time.
func expect(t *testing.T, at *topic, after time.Duration, want ...string) {
	t.Helper()
	<-time.After(after) // virtual
	synctest.Wait()
	got := at.take()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("nudges after %s = %v, want %v", after, got, want)
	}
}

func TestNotifier_NudgesOnceForAReadyTransition(t *testing.T) {
	t.Parallel()
	at := &topic{}
	run(t, at, func(n *Notifier) {
		n.PodAdded("a", starting())
		expect(t, at, time.Second)
		n.PodChanged("a", starting(), ready())
		expect(t, at, 0, "a")
		for range 5 { // the repetitions of a watch that restarts
			n.PodChanged("a", ready(), ready())
			expect(t, at, time.Minute)
		}
	})
}

func TestNotifier_NudgesForWhatAWorkerMustSee(t *testing.T) {
	t.Parallel()
	failing := func(trouble string) Pod { return Pod{UID: "1", Trouble: trouble} }
	for name, row := range map[string]struct {
		before, after Pod
		want          bool
	}{
		"starts":               {before: starting(), after: starting()},
		"becomes ready":        {before: starting(), after: ready(), want: true},
		"is no longer ready":   {before: ready(), after: starting(), want: true},
		"fails":                {before: starting(), after: failing("Error"), want: true},
		"fails in another way": {before: failing("Error"), after: failing("OOMKilled"), want: true},
		"fails as before":      {before: failing("Error"), after: failing("Error")},
		"starts again":         {before: failing("Error"), after: starting()},
		"recovers":             {before: failing("Error"), after: ready(), want: true},
		"was replaced":         {before: ready(), after: Pod{UID: "2", Ready: true}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := &topic{}
			run(t, at, func(n *Notifier) {
				n.PodChanged("a", row.before, row.after)
				var want []string
				if row.want {
					want = []string{"a"}
				}
				expect(t, at, time.Second, want...)
			})
		})
	}
}

func TestNotifier_OnStartNudgesForRecentChangesOnly(t *testing.T) {
	t.Parallel()
	at := &topic{}
	run(t, at, func(n *Notifier) {
		n.PodFound("new", Pod{Ready: true, Since: time.Now().Add(-time.Minute)})
		n.PodFound("old", Pod{Ready: true, Since: time.Now().Add(-time.Hour)})
		n.PodFound("starting", Pod{Since: time.Now()})
		n.PodFound("failing", Pod{Trouble: "Error", Since: time.Now()})
		expect(t, at, time.Second, "failing", "new")
	})
}

func TestNotifier_MergesABurstPerAgent(t *testing.T) {
	t.Parallel()
	at := &topic{}
	run(t, at, func(n *Notifier) {
		for range 100 {
			n.Gone("a")
			n.Gone("b")
		}
		expect(t, at, 0, "a", "b")
		n.Gone("a")
		n.Gone("a")
		expect(t, at, gap-1)
		expect(t, at, 1, "a") // one for both
		expect(t, at, time.Minute)
		n.Gone("a")
		expect(t, at, 0, "a") // without delay after a quiet time
	})
}

func TestNotifier_NudgesAgainForAChangeDuringAPublication(t *testing.T) {
	t.Parallel()
	at := &topic{}
	run(t, at, func(n *Notifier) {
		var once sync.Once
		at.during = func(id string) { once.Do(func() { n.Gone(id) }) }
		n.Gone("a")
		expect(t, at, 2*gap, "a", "a")
	})
}

func TestNotifier_RepeatsAFailedNudgeUntilItIsTaken(t *testing.T) {
	t.Parallel()
	at := &topic{down: true}
	run(t, at, func(n *Notifier) {
		n.Gone("a")
		expect(t, at, time.Hour)
		// At most two attempts in maxRetry, after the first few.
		if most := int(2*time.Hour/maxRetry) + 10; at.attempts > most {
			t.Errorf("attempts in an hour = %d, want at most %d", at.attempts, most)
		}
		at.setDown(false)
		expect(t, at, maxRetry, "a")
		expect(t, at, time.Hour)
	})
}

func TestNotifier_OneAgentsFailureDelaysNoOther(t *testing.T) {
	t.Parallel()
	at := &topic{down: true}
	run(t, at, func(n *Notifier) {
		n.Gone("a")
		synctest.Wait()
		at.setDown(false)
		n.Gone("b")
		expect(t, at, 0, "b")
		expect(t, at, firstRetry, "a")
	})
}

func TestNotifier_StoresABoundedNumberOfAgents(t *testing.T) {
	t.Parallel()
	at := &topic{down: true}
	run(t, at, func(n *Notifier) {
		for i := range maxAgents + 100 {
			n.Gone(strconv.Itoa(i))
		}
		n.mu.Lock()
		waiting := len(n.agents)
		n.mu.Unlock()
		if waiting != maxAgents {
			t.Errorf("agents that wait = %d, want %d", waiting, maxAgents)
		}
		at.setDown(false)
		<-time.After(2 * maxRetry)
		synctest.Wait()
		if got := len(at.take()); got != maxAgents {
			t.Errorf("nudges after the outage = %d, want %d", got, maxAgents)
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if len(n.agents) != 0 || len(n.queue) != 0 {
			t.Errorf("agents stored after the outage = %d, in the queue %d, want none", len(n.agents), len(n.queue))
		}
	})
}

// TestNotifier_WakesOnceForManyRequests: a wake is never less than what it is merged with.
func TestNotifier_WakesOnceForManyRequests(t *testing.T) {
	t.Parallel()
	at := &topic{}
	run(t, at, func(n *Notifier) {
		wake := func(id string) {
			if err := n.Wake(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
		n.Gone("a") // the wake comes before the nudge is published, or after it
		wake("a")
		n.Gone("a")
		wake("b")
		wake("b")
		expect(t, at, gap, "a!", "b!")
		expect(t, at, time.Hour)
		n.Gone("a")
		expect(t, at, 0, "a") // the next one is as ever
	})
}

func TestNotifier_RepeatsAFailedWake(t *testing.T) {
	t.Parallel()
	at := &topic{down: true}
	run(t, at, func(n *Notifier) {
		if err := n.Wake(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		expect(t, at, time.Second)
		n.Gone("a") // does not take its place
		at.setDown(false)
		expect(t, at, 2*firstRetry, "a!")
		expect(t, at, time.Hour)
	})
}

func TestNotifier_WakesAgainForARequestDuringAPublication(t *testing.T) {
	t.Parallel()
	at := &topic{}
	run(t, at, func(n *Notifier) {
		var once sync.Once
		at.during = func(string) { once.Do(func() { _ = n.Wake(t.Context(), "a") }) }
		n.Gone("a")
		expect(t, at, 2*gap, "a", "a!")
	})
}

func TestServeWake_TakesIDsOnlyAndIsBounded(t *testing.T) {
	t.Parallel()
	n := New(&topic{})
	mux := http.NewServeMux()
	mux.HandleFunc(WakePath, n.ServeWake)
	post := func(method, path string) int {
		res := httptest.NewRecorder()
		mux.ServeHTTP(res, httptest.NewRequest(method, path, unread{t}))
		return res.Code
	}
	const id = "0193a5c8-7d1e-7c3a-9b3e-0a1b2c3d4e5f"
	for _, row := range []struct {
		method, path string
		want         int
	}{
		{method: http.MethodPost, path: "/wake/" + id, want: http.StatusAccepted},
		{method: http.MethodGet, path: "/wake/" + id, want: http.StatusMethodNotAllowed},
		{method: http.MethodPost, path: "/wake/" + strings.ToUpper(id), want: http.StatusBadRequest},
		{method: http.MethodPost, path: "/wake/{" + id + "}", want: http.StatusBadRequest},
		{method: http.MethodPost, path: "/wake/x", want: http.StatusBadRequest},
		{method: http.MethodPost, path: "/wake/" + id + "/x", want: http.StatusNotFound},
	} {
		if got := post(row.method, row.path); got != row.want {
			t.Errorf("%s %s = %d, want %d", row.method, row.path, got, row.want)
		}
	}
	for i := range maxAgents {
		n.Gone(strconv.Itoa(i))
	}
	const other = "0193a5c8-7d1e-7c3a-9b3e-0a1b2c3d4e60"
	if got := post(http.MethodPost, "/wake/"+other); got != http.StatusServiceUnavailable {
		t.Errorf("a wake without room = %d, want 503", got)
	}
	if got := post(http.MethodPost, "/wake/"+id); got != http.StatusAccepted {
		t.Errorf("another wake of an agent that waits = %d, want 202", got)
	}
}

// unread is a body that must not be read.
type unread struct{ t *testing.T }

// Read implements io.Reader.
func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

package firestore

import (
	"context"
	"slices"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/event"
)

// forEachClock runs a test with a client whose clock differs from the database's, and with one whose clock is right.
func forEachClock(t *testing.T, test func(t *testing.T, wrong, right *Client)) {
	t.Helper()
	for _, ahead := range []time.Duration{
		0, 4 * time.Minute, 6 * time.Minute, 15 * time.Minute, 5 * time.Hour, -6 * time.Minute, -5 * time.Hour,
	} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			right := open(t, "", Options{})
			test(t, open(t, right.project(), Options{
				Now: func() time.Time { return time.Now().Add(ahead) },
			}), right)
		})
	}
}

// inTime is a context that ends a test which waits for what does not come.
func inTime(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), recordTimeout)
	t.Cleanup(cancel)
	return ctx
}

func TestEventLog_SkipsNothingWithAWrongClock(t *testing.T) {
	t.Parallel()
	forEachClock(t, func(t *testing.T, wrong, right *Client) {
		log := wrong.EventLog()
		right.addRecord(t, "o", 1)
		first, err := log.List(t.Context(), "o", event.Filter{}, event.Start, 10)
		must(t, err)
		idle, err := log.List(t.Context(), "o", event.Filter{}, first.Next, 10)
		must(t, err)
		old, err := log.List(t.Context(), "o", event.Filter{Type: "none"}, event.After(time.Now().Add(-time.Hour)), 10)
		must(t, err)
		if since := time.Since(old.Next.Time()); since < settling || since > 2*settling {
			t.Errorf("the cursor of a reader without events is %s old, want about %s", since, settling)
		}
		right.addRecord(t, "o", 2)
		last, err := right.EventLog().List(t.Context(), "o", event.Filter{}, idle.Next, 10)
		must(t, err)
		got := numbersOf(t, slices.Concat(first.Events, idle.Events, last.Events))
		if want := []int64{1, 2}; !slices.Equal(got, want) {
			t.Errorf("the reader got %v, want %v", got, want)
		}
	})
}

func TestFollow_SkipsNothingWithAWrongClock(t *testing.T) {
	t.Parallel()
	forEachClock(t, func(t *testing.T, wrong, right *Client) {
		var got []int64
		committed := false
		for b, err := range wrong.EventLog().Follow(inTime(t), "o", event.Filter{}, "", time.Hour) {
			must(t, err)
			if !committed { // the reader has reached the end of the log
				committed = true
				right.addRecord(t, "o", 1)
				right.addRecord(t, "o", 2)
			}
			if got = append(got, numbersOf(t, b.Events)...); len(got) >= 2 {
				break
			}
		}
		if want := []int64{1, 2}; !slices.Equal(got, want) {
			t.Errorf("the follower got %v, want %v", got, want)
		}
	})
}

func TestAwait_SeesAChangeWithAWrongClock(t *testing.T) {
	t.Parallel()
	forEachClock(t, func(t *testing.T, wrong, right *Client) {
		x := newTenantFixture(t, right)
		ctx, cancel := context.WithTimeout(x.org.Ctx, recordTimeout)
		defer cancel()
		changed := false
		a, err := wrong.Agents(nil).Await(ctx, x.agent.ID, func(a agent.Agent) bool {
			if !changed {
				changed = true
				_, err := right.Agents(nil).Change(x.org.Ctx, x.agent.ID,
					func(a *agent.Agent) error { a.Name = "another"; return nil })
				must(t, err)
			}
			return a.Name == "another"
		})
		if must(t, err); a.Name != "another" || ctx.Err() != nil {
			t.Errorf("the wait ended with the name %q (%v), want the changed one in time", a.Name, ctx.Err())
		}
	})
}

func TestWebhooks_BeginWithTheEventsAfterTheirCreation(t *testing.T) {
	t.Parallel()
	forEachClock(t, func(t *testing.T, wrong, right *Client) {
		x := newTenantFixture(t, right)
		right.addRecord(t, x.org.ID, 1)
		w, err := wrong.Webhooks().Create(x.org.Ctx, newWebhook())
		must(t, err)
		right.addRecord(t, x.org.ID, 2)
		b, err := right.EventLog().List(t.Context(), x.org.ID, event.Filter{Type: "number"}, w.Position, 10)
		must(t, err)
		if got, want := numbersOf(t, b.Events), []int64{2}; !slices.Equal(got, want) {
			t.Errorf("the webhook has the events %v, want %v", got, want)
		}
	})
}

// The time of the database costs no call: others tell it.
func TestDatabaseClock_CostsNoCall(t *testing.T) {
	t.Parallel()
	recorder := &callRecorder{}
	right := open(t, "", Options{})
	x := newTenantFixture(t, right)
	one := open(t, right.project(), Options{Observe: recorder.observe})
	other := open(t, right.project(), Options{Observe: recorder.observe})
	tell := func(c *Client) func() {
		return func() { _, err := c.DatabaseNow(t.Context()); must(t, err) }
	}
	recorder.wantCalls(t, []callStep{
		{name: "list no events", want: "query", do: func() {
			_, err := one.EventLog().List(t.Context(), x.org.ID, event.Filter{}, event.After(time.Now()), 10)
			must(t, err)
		}},
		{name: "the time after a list", do: tell(one)},
		{name: "get an agent", want: "read", do: func() {
			_, err := other.Agents(nil).Get(x.org.Ctx, x.agent.ID)
			must(t, err)
		}},
		{name: "the time after a read", do: tell(other)},
	})
}

// A feed has what was committed since its first reader joined, however long its first call takes.
func TestFeed_HasWhatIsCommittedWhileItBegins(t *testing.T) {
	t.Parallel()
	right, answer := open(t, "", Options{}), make(chan struct{})
	slow := open(t, right.project(), Options{DialOptions: []grpc.DialOption{aroundStreams(
		func(method string, open openStream) (grpc.ClientStream, error) {
			if method == firestorepb.Firestore_BatchGetDocuments_FullMethodName {
				<-answer
			}
			return open()
		})}})
	f := slow.feeds.join("o")
	defer f.leave()
	right.addRecord(t, "o", 1)
	close(answer)
	f.await(t, 1)
}

// await waits until the feed has had n events.
func (f *feed) await(t *testing.T, n int) {
	t.Helper()
	for ctx := inTime(t); ; {
		_, end, _, changed, err := f.after(0)
		if must(t, err); end >= n {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("the feed has had %d events, want %d", end, n)
		}
	}
}

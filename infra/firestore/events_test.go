package firestore

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/rehearsal"
)

// TestEventLog_FindsLateCommits commits records that were requested long before, after a reader has read events that
// were requested later.
func TestEventLog_FindsLateCommits(t *testing.T) {
	t.Parallel()
	for name, enough := range map[string]int{"looking back": enoughRecords, "counting": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := open(t, "", Options{})
			c.recent.enough = enough
			findLateCommits(t, c)
		})
	}
}

func findLateCommits(t *testing.T, c *Client) {
	t.Helper()
	log := c.EventLog()
	log.page = 3
	followed := make(chan int64, 100)
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	following.Go(func() {
		for b, err := range log.Follow(ctx, "o", event.Filter{}, event.Start, time.Minute) {
			if err != nil {
				t.Error(err)
			}
			for _, n := range numbersOf(t, b.Events) {
				followed <- n
			}
		}
	})
	var want, got []int64
	after := event.Start
	for n := range int64(12) {
		c.commitLate(t, n, time.Duration(n*7%5)*time.Minute)
		want = append(want, n)
		select {
		case f := <-followed:
			if f != n {
				t.Errorf("the follower received %d, want %d", f, n)
			}
		case <-time.After(recordTimeout):
			t.Fatalf("the follower did not receive %d in %s", n, recordTimeout)
		}
		if n%4 != 3 {
			continue
		}
		for pages, more := 0, true; more; pages++ {
			if pages == 100 {
				t.Fatalf("%d pages have %d events, and there is another page", pages, len(got))
			}
			b, err := log.List(t.Context(), "o", event.Filter{}, after, 2)
			must(t, err)
			got, after, more = append(got, numbersOf(t, b.Events)...), b.Next, b.More
		}
		if !slices.Equal(got, want) {
			t.Errorf("the reader has %v, want %v", got, want)
		}
	}
}

// TestFeed_ReplacesAListenerThatMissedAChange has a listener that receives nothing.
func TestFeed_ReplacesAListenerThatMissedAChange(t *testing.T) {
	t.Parallel()
	replaced := make(chan struct{})
	nothing := func(received proto.Message) error {
		proto.Reset(received)
		proto.Merge(received, targetChange(firestorepb.TargetChange_NO_CHANGE, 1))
		return nil
	}
	broken := &brokenListener{fail: nothing, times: 1, recovered: func() { close(replaced) }}
	c := open(t, "", broken.options())
	c.feeds.patience = 50 * time.Millisecond
	f := c.feeds.join("o")
	defer f.leave()
	_, _, _, changed, _ := f.after(0)
	c.addRecord(t, "o", 1)
	for what, happened := range map[string]<-chan struct{}{"an event": changed, "another listener": replaced} {
		select {
		case <-happened:
		case <-time.After(recordTimeout):
			t.Errorf("no sign of %s in %s", what, recordTimeout)
		}
	}
	if events, _, _, _, err := f.after(0); err != nil || !slices.Equal(numbersOf(t, events), []int64{1}) {
		t.Errorf("events %v, %v, want 1", events, err)
	}
}

// TestEventLog_SkipsNothingBetweenPages commits two records between the two queries of a list: one that the first query
// would have found, and a later one that the second query finds.
func TestEventLog_SkipsNothingBetweenPages(t *testing.T) {
	t.Parallel()
	other := open(t, "", Options{})
	queries := 0
	c := open(t, other.project(), Options{Observe: func(method string) {
		if !strings.HasSuffix(method, "/RunQuery") {
			return
		}
		if queries++; queries == 2 {
			other.commitLate(t, 4, 4*time.Minute)
			other.commitLate(t, 5, 0)
		}
	}})
	log := c.EventLog()
	log.page = 3
	for n := range int64(3) {
		other.commitLate(t, n+1, 2*time.Minute)
	}
	first, err := log.List(t.Context(), "o", event.Filter{}, event.Start, 10)
	must(t, err)
	second, err := log.List(t.Context(), "o", event.Filter{}, first.Next, 10)
	must(t, err)
	got := numbersOf(t, slices.Concat(first.Events, second.Events))
	if want := []int64{1, 2, 3, 4, 5}; !slices.Equal(got, want) || !first.More {
		t.Errorf("events %v, more after the first part %t, want %v and true", got, first.More, want)
	}
}

// commitLate commits a record of the organization o with a number, which was requested some time ago.
func (c *Client) commitLate(t *testing.T, n int64, ago time.Duration) {
	t.Helper()
	r := eventRecord{organizationID: "o", events: []event.Draft{event.New("number", n)}}
	doc := eventRecordFields(&r).encode()
	doc[requestedField] = time.Now().Add(-ago)
	_, err := c.commit(t.Context(),
		c.batch().Create(c.collection(eventCollection).Doc(event.RecordID(rand.Uint64())), doc))
	must(t, err)
}

func TestOnEvents_IsCalledAfterChangesThatHaveEvents(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	x := newTenantFixture(t, c)
	var mu sync.Mutex
	reports := 0
	c.OnEvents(func(_ context.Context, organizationID string) {
		mu.Lock()
		defer mu.Unlock()
		if reports++; organizationID != x.org.ID {
			t.Errorf("reported the organization %q, want %q", organizationID, x.org.ID)
		}
	})
	agents, records := c.Agents(&agenttest.Nudges{}), c.WorkerStore()
	change := func(apply func(*agent.Agent) error) func() error {
		return func() error {
			_, err := agents.Change(x.org.Ctx, x.agent.ID, apply)
			return err
		}
	}
	update := func(apply func(*agent.Agent)) func() error {
		return func() error {
			_, err := records.Update(t.Context(), x.loadAgent(t), apply)
			return err
		}
	}
	for _, row := range []struct {
		name string
		run  func() error
		want int
	}{
		{"a creation", func() error { _, err := agents.Create(x.org.Ctx, agenttest.Draft(plan.Hobby)); return err }, 1},
		{"a change that clients see", change(func(a *agent.Agent) error { a.Name = "another"; return nil }), 1},
		{"no change", change(changeNothing), 0},
		{"a rehearsed change", func() error {
			ctx := call.Derive(x.org.Ctx, func(c *call.Call) { c.Rehearsal = &rehearsal.Rehearsal{} })
			_, err := agents.Change(ctx, x.agent.ID, func(a *agent.Agent) error { a.Name = "rehearsed"; return nil })
			return err
		}, 0},
		{"a write that clients see", update(func(a *agent.Agent) { a.Warming = !a.Warming }), 1},
		{"a write that they do not see", update(func(a *agent.Agent) { a.Lease.Holder = "h" }), 0},
		{"a key", func() error { _, err := c.Keys().Create(x.org.Ctx, newKey()); return err }, 1},
		{"a revocation", func() error { return c.Keys().Revoke(x.org.Ctx, x.key.ID) }, 1},
		{"a removal", func() error { return records.Remove(t.Context(), x.loadAgent(t), agent.Deletion{}) }, 1},
	} {
		must(t, row.run())
		mu.Lock()
		if reports != row.want {
			t.Errorf("%s: %d reports, want %d", row.name, reports, row.want)
		}
		reports = 0
		mu.Unlock()
	}
}

// TestOnEvents_IsNotCalledForAChangeThatFailed: the commit, which has events, is refused as often as it is tried.
func TestOnEvents_IsNotCalledForAChangeThatFailed(t *testing.T) {
	t.Parallel()
	x := newTenantFixture(t, open(t, "", Options{}))
	refused := 0
	c := open(t, x.client.project(), Options{DialOptions: []grpc.DialOption{aroundCommits(func(func() error) error {
		refused++
		return status.Error(codes.Canceled, "refused") // which the library does not try again
	})}})
	c.OnEvents(func(context.Context, string) { t.Error("the events of a change that failed are reported") })
	_, err := c.Agents(nil).Change(x.org.Ctx, x.agent.ID, func(a *agent.Agent) error { a.Name = "another"; return nil })
	if !fault.Is(err, fault.Unavailable) || refused == 0 {
		t.Errorf("the change failed with %v after %d refused commits, want Unavailable", err, refused)
	}
}

// TestChange_PublishesConcurrentlyBeforeItsAnswer: an agent's nudge and those of webhooks need each other to go on, and
// the answer of the call waits for both.
func TestChange_PublishesConcurrentlyBeforeItsAnswer(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	x := newTenantFixture(t, c)
	nudging, reporting := make(chan struct{}), make(chan struct{})
	var published atomic.Int32
	c.OnEvents(func(context.Context, string) {
		close(reporting)
		<-nudging
		published.Add(1)
	})
	agents := c.Agents(nudgerFunc(func(context.Context, string) error {
		close(nudging)
		<-reporting
		published.Add(1)
		return nil
	}))
	answer := &call.Answer{}
	ctx := call.Derive(x.org.Ctx, func(c *call.Call) { c.Answer = answer })
	_, err := agents.Change(ctx, x.agent.ID, func(a *agent.Agent) error {
		return a.Act(agent.Stop, "", time.Now())
	})
	must(t, err)
	answer.Wait()
	if got := published.Load(); got != 2 {
		t.Errorf("%d of 2 nudges are published before the answer", got)
	}
}

type nudgerFunc func(ctx context.Context, agentID string) error

// Nudge implements agent.Nudger.
func (f nudgerFunc) Nudge(ctx context.Context, agentID string) error { return f(ctx, agentID) }

// commitEvents commits events once. A repeat writes the same document, so it fails if the first try was carried out.
func (c *Client) commitEvents(ctx context.Context, organizationID, agentID string, events []event.Draft) error {
	b := c.batch()
	c.writeEvents(b, organizationID, agentID, events)
	return c.retryUntilDecided(ctx, func(ctx context.Context, again bool) error {
		_, err := c.commit(ctx, b)
		if again && codeOf(err) == codes.AlreadyExists {
			return nil
		}
		return err
	})
}

// A listener may leave a record out until its count of records tells. Readers get the record before those that were
// committed later.
func TestFollow_HasWhatTheListenerLeftOut(t *testing.T) {
	t.Parallel()
	var left atomic.Bool
	b := &brokenListener{times: 100, fail: func(m proto.Message) error {
		if r := m.(*firestorepb.ListenResponse); r.GetDocumentChange() != nil && left.CompareAndSwap(false, true) {
			r.ResponseType = &firestorepb.ListenResponse_TargetChange{TargetChange: &firestorepb.TargetChange{}}
		}
		return nil
	}}
	c := open(t, "", b.options())
	var got []int64
	for batch, err := range c.EventLog().Follow(t.Context(), "o", event.Filter{}, "", time.Minute) {
		must(t, err)
		if len(batch.Events) == 0 { // the reader has reached the end of the log
			c.addRecord(t, "o", 1)
			c.addRecord(t, "o", 2)
		}
		if got = append(got, numbersOf(t, batch.Events)...); len(got) >= 2 {
			break
		}
	}
	if want := []int64{1, 2}; !slices.Equal(got, want) || !left.Load() {
		t.Errorf("the reader got %v, want %v; a record was left out: %t", got, want, left.Load())
	}
}

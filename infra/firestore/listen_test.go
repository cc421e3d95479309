package firestore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	vkit "cloud.google.com/go/firestore/apiv1"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

// addRecord commits a record of an organization's events that holds a number.
func (c *Client) addRecord(t *testing.T, organizationID string, n int64) {
	t.Helper()
	must(t, c.commitEvents(t.Context(), organizationID, "", []event.Draft{event.New("number", n)}))
}

// watchRecords watches an organization's records from an hour ago on.
func (c *Client) watchRecords(organizationID string) *watch {
	f := &feed{feeds: c.feeds, organizationID: organizationID}
	return c.listeners.watch(f.target, c.now().Add(-time.Hour), false)
}

func numbersOf(t *testing.T, events []event.Event) []int64 {
	t.Helper()
	var numbers []int64
	for _, e := range events {
		n, err := strconv.ParseInt(string(e.Data), 10, 64)
		if err != nil {
			t.Error(err)
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// recordTimeout bounds the wait until a listener tells of a record. Only a failing test reaches it.
const recordTimeout = 2 * time.Minute

// awaitRecord waits until a watch tells of a record.
func awaitRecord(t *testing.T, w *watch) {
	t.Helper()
	if told, err := w.next(t.Context(), recordTimeout); err != nil || !told {
		t.Fatalf("watch = %t, %v, want that it tells of a record", told, err)
	}
}

// told reports whether a watch tells of a record, or has ended.
func (w *watch) told() (bool, error) {
	select {
	case <-w.changed:
		return w.err == nil, w.err
	default:
		return false, w.err
	}
}

// openStreams is how many streams take targets.
func (l *listeners) openStreams() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.streams)
}

func TestWatch_SharesStreams(t *testing.T) {
	t.Parallel()
	recorder := &callRecorder{}
	c := open(t, "", Options{Observe: recorder.observe})
	c.addRecord(t, "a", 1)
	var all []*watch
	calls := recorder.during(func() {
		for range 2*maxTargets + 1 {
			all = append(all, c.watchRecords("a"))
		}
		for _, w := range all {
			awaitRecord(t, w)
		}
	})
	if want := "Listen Listen Listen"; calls != want {
		t.Errorf("calls %q for %d watches, want %q", calls, len(all), want)
	}
	all[0].stop()
	again := c.watchRecords("a")
	awaitRecord(t, again)
	if got := c.listeners.openStreams(); got != 3 {
		t.Errorf("%d streams are open after one watch replaced another, want 3", got)
	}
	for _, w := range append(all, again) {
		w.stop()
	}
	if got := c.listeners.openStreams(); got != 0 {
		t.Errorf("%d streams are open after the last watch, want 0", got)
	}
}

func TestWatch_OutlivesOthersOfItsStream(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	c.addRecord(t, "a", 1)
	c.addRecord(t, "b", 1)
	stays, same, another := c.watchRecords("a"), c.watchRecords("a"), c.watchRecords("b")
	defer stays.stop()
	for _, w := range []*watch{stays, same, another} {
		awaitRecord(t, w)
	}
	same.stop()
	another.stop()
	for n := int64(2); n < 5; n++ {
		c.addRecord(t, "b", 100+n)
		c.addRecord(t, "a", n)
		awaitRecord(t, stays)
	}
}

// TestWatch_OutlivesABrokenStream breaks streams with many watches. One stream opens again for all of them, and not one
// for each. Whenever a stream breaks, a watch ends and another one begins.
func TestWatch_OutlivesABrokenStream(t *testing.T) {
	t.Parallel()
	for what, row := range map[string]struct {
		times int64
		with  codes.Code
		when  func(*firestorepb.ListenResponse) bool
	}{
		"at the first message": {times: 4, with: codes.Unavailable, when: func(*firestorepb.ListenResponse) bool {
			return true
		}},
		"before a target is current": {times: 2, with: codes.Internal, when: func(r *firestorepb.ListenResponse) bool {
			return r.GetTargetChange().GetTargetChangeType() == firestorepb.TargetChange_CURRENT
		}},
		"at a change": {times: 1, with: codes.Canceled, when: func(r *firestorepb.ListenResponse) bool {
			return r.GetDocumentChange() != nil
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			began, brokeOnce := make(chan struct{}), make(chan *watch, row.times)
			var breakIt func() *watch
			b := &brokenListener{times: row.times, fail: func(m proto.Message) error {
				<-began
				if !row.when(m.(*firestorepb.ListenResponse)) {
					return nil
				}
				brokeOnce <- breakIt()
				return status.Error(row.with, "injected fault")
			}}
			c := open(t, "", b.options())
			var all []*watch
			for i := range maxTargets / 2 {
				all = append(all, c.watchRecords(strconv.Itoa(i)))
			}
			leaving := c.watchRecords("0")
			breakIt = func() *watch {
				leaving.stop()
				return c.watchRecords("0")
			}
			close(began)
			for i := range all {
				c.addRecord(t, strconv.Itoa(i), 2)
			}
			for range row.times {
				select {
				case w := <-brokeOnce:
					all = append(all, w)
				case <-time.After(recordTimeout):
					t.Fatalf("no stream broke in %s", recordTimeout)
				}
			}
			for _, w := range all {
				awaitRecord(t, w)
			}
			for _, w := range all {
				w.stop()
			}
			if got, broke := b.opened.Load(), row.times+b.lost.Load(); got != broke+1 {
				t.Errorf("%d streams were opened for %d that broke, want one more", got, broke)
			}
		})
	}
}

// TestAwait_OutlivesAnotherOrganizationThatFailsItsStream lets the service end each stream with a record of one
// organization.
func TestAwait_OutlivesAnotherOrganizationThatFailsItsStream(t *testing.T) {
	t.Parallel()
	var refused atomic.Pointer[string]
	c := open(t, "", (&brokenListener{times: 1000, fail: func(m proto.Message) error {
		fields := m.(*firestorepb.ListenResponse).GetDocumentChange().GetDocument().GetFields()
		if of := refused.Load(); of != nil && fields["organization_id"].GetStringValue() == *of {
			return status.Error(codes.InvalidArgument, "injected fault")
		}
		return nil
	}}).options())
	fixture := agentFixture(c)
	org, other := fixture.Tenant(t, plan.Enterprise), fixture.Tenant(t, plan.Enterprise)
	a, bad := org.Create(plan.Pro), other.Create(plan.Pro)
	refused.Store(&other.ID)
	seen, ended := make(chan struct{}), make(chan error)
	go func() {
		var once sync.Once
		got, err := c.Agents(nil).Await(org.Ctx, a.ID, func(current agent.Agent) bool {
			once.Do(func() { close(seen) })
			return current.Name != a.Name
		})
		if err == nil && got.Name != "another" {
			err = fmt.Errorf("name %q, want another", got.Name)
		}
		ended <- err
	}()
	<-seen
	for range listenTries + 1 {
		_, err := c.Agents(nil).Await(other.Ctx, bad.ID, func(agent.Agent) bool { return false })
		if err == nil {
			t.Error("Await in the organization that fails its streams returned no error")
		}
	}
	_, err := c.WorkerStore().Update(t.Context(), a, func(a *agent.Agent) { a.Name = "another" })
	must(t, err)
	if err := <-ended; err != nil {
		t.Errorf("Await in another organization: %v", err)
	}
}

// TestWatch_BeginsWhileOthersEnd begins and ends watches concurrently, so that streams end with their last watch while
// new watches begin, and while others break.
func TestWatch_BeginsWhileOthersEnd(t *testing.T) {
	t.Parallel()
	b := &brokenListener{times: 100, skip: 10, fail: func(proto.Message) error {
		return status.Error(codes.Unavailable, "injected fault")
	}}
	for what, o := range map[string]Options{"streams that stay": {}, "streams that break": b.options()} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := open(t, "", o)
			c.addRecord(t, "a", 1)
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					for range 25 {
						w := c.watchRecords("a")
						awaitRecord(t, w)
						w.stop()
						w.stop() // has no effect
					}
				})
			}
			all.Wait()
			if got := c.listeners.openStreams(); got != 0 {
				t.Errorf("%d streams are open, want 0", got)
			}
		})
	}
}

func TestAwait_EndsWhenTheClientIsClosed(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org := agentFixture(c).Tenant(t, plan.Enterprise)
	a := org.Create(plan.Pro)
	closing, err := Open(t.Context(), Options{ProjectID: c.project(), EmulatorHost: emulatorHost})
	must(t, err)
	seen, ended := make(chan struct{}), make(chan error)
	go func() {
		_, err := closing.Agents(nil).Await(org.Ctx, a.ID, func(agent.Agent) bool { close(seen); return false })
		ended <- err
	}()
	<-seen
	must(t, closing.Close())
	if err := <-ended; !fault.Is(err, fault.Unavailable) {
		t.Errorf("Await = %v, want Unavailable", err)
	}
}

// TestListeners_EndAStreamThatNeverOpens: no server listens on port 1.
func TestListeners_EndAStreamThatNeverOpens(t *testing.T) {
	t.Parallel()
	c, err := Open(t.Context(), Options{ProjectID: "p", EmulatorHost: "127.0.0.1:1"})
	must(t, err)
	w := c.watchRecords("o")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.next(ctx, recordTimeout); !errors.Is(err, context.Canceled) {
		t.Errorf("next = %v, want the context's error", err)
	}
	w.stop()
	stays := c.watchRecords("o")
	must(t, c.Close())
	if _, err := stays.next(t.Context(), recordTimeout); codeOf(err) != codes.Canceled {
		t.Errorf("next after close = %v, want Canceled", err)
	}
}

func noTarget(time.Time) *firestorepb.Target_QueryTarget { return nil }

func TestListeners_TellWhyTheyCanNotConnect(t *testing.T) {
	t.Parallel()
	refused := errors.New("no credentials")
	l := newListeners("projects/p/databases/d", func() (*vkit.Client, error) { return nil, refused })
	if _, err := l.watch(noTarget, time.Time{}, false).next(t.Context(), recordTimeout); !errors.Is(err, refused) {
		t.Errorf("next = %v, want the error of connecting", err)
	}
	must(t, l.close())
	if _, err := l.watch(noTarget, time.Time{}, false).next(t.Context(), recordTimeout); codeOf(err) != codes.Canceled {
		t.Errorf("next after close = %v, want Canceled", err)
	}
}

// The messages of a service.

func targetChange(kind firestorepb.TargetChange_TargetChangeType, ids ...int32) *firestorepb.ListenResponse {
	return &firestorepb.ListenResponse{ResponseType: &firestorepb.ListenResponse_TargetChange{
		TargetChange: &firestorepb.TargetChange{TargetChangeType: kind, TargetIds: ids},
	}}
}

func current(ids ...int32) *firestorepb.ListenResponse {
	return targetChange(firestorepb.TargetChange_CURRENT, ids...)
}

// completedAt is the time up to which complete says that everything was sent.
var completedAt = time.Unix(1_000_000_000, 0)

// complete means that everything before it was sent.
func complete() *firestorepb.ListenResponse {
	change := targetChange(firestorepb.TargetChange_NO_CHANGE)
	change.GetTargetChange().ReadTime = timestamppb.New(completedAt)
	return change
}

// added is a record.
func added(ids ...int32) *firestorepb.ListenResponse {
	return &firestorepb.ListenResponse{ResponseType: &firestorepb.ListenResponse_DocumentChange{
		DocumentChange: &firestorepb.DocumentChange{TargetIds: ids, Document: &firestorepb.Document{}},
	}}
}

func deleted(ids ...int32) *firestorepb.ListenResponse {
	return &firestorepb.ListenResponse{ResponseType: &firestorepb.ListenResponse_DocumentDelete{
		DocumentDelete: &firestorepb.DocumentDelete{RemovedTargetIds: ids},
	}}
}

func counted(n, id int32) *firestorepb.ListenResponse {
	return &firestorepb.ListenResponse{ResponseType: &firestorepb.ListenResponse_Filter{
		Filter: &firestorepb.ExistenceFilter{TargetId: id, Count: n},
	}}
}

func refused(id int32) *firestorepb.ListenResponse {
	change := targetChange(firestorepb.TargetChange_REMOVE, id)
	change.GetTargetChange().Cause = &rpcstatus.Status{Code: int32(codes.PermissionDenied)}
	return change
}

// TestListenStream_FollowsTheProtocol sends messages to a watch with the target 1, which shares its stream with a watch
// of the same records with the target 2.
func TestListenStream_FollowsTheProtocol(t *testing.T) {
	t.Parallel()
	type messages = []*firestorepb.ListenResponse
	for name, c := range map[string]struct {
		given    messages
		want     bool
		wantCode codes.Code
	}{
		"nothing":                        {},
		"a record":                       {given: messages{added(1), current(1), complete()}, want: true},
		"a record before it is current":  {given: messages{added(1), complete()}},
		"a record before it is complete": {given: messages{added(1), current(1)}},
		"all targets become current":     {given: messages{added(1), current(), complete()}, want: true},
		"a record of another watch":      {given: messages{added(2), current(2), complete()}},
		"a record of both watches":       {given: messages{added(2, 1), current(1, 2), complete()}, want: true},
		"a record of an ended watch": {
			given: messages{added(9), current(9), complete(), refused(9), counted(1, 9)},
		},
		"records of several completions": {
			given: messages{added(1), added(1), current(1), complete(), added(1), complete(), added(1)},
			want:  true,
		},
		"a deletion is no record": {
			given: messages{added(1), current(1), complete(), deleted(1), complete()}, want: true,
		},
		"no record": {given: messages{current(1), complete()}},
		"a reset": {
			given: messages{
				added(1), targetChange(firestorepb.TargetChange_RESET, 1), complete(), added(1), complete(),
			},
		},
		"records after a reset": {
			given: messages{
				added(1), current(1), targetChange(firestorepb.TargetChange_RESET, 1), added(1), added(1),
				current(1), complete(),
			},
			want: true,
		},
		"a count that is right": {given: messages{added(1), current(1), complete(), counted(1, 1)}, want: true},
		"a count after a deletion": {
			given: messages{added(1), added(1), current(1), complete(), deleted(1), counted(1, 1)}, want: true,
		},
		"a count that is wrong": {
			given: messages{added(1), current(1), complete(), counted(2, 1)}, wantCode: codes.Unavailable,
		},
		"refused":            {given: messages{refused(1)}, wantCode: codes.PermissionDenied},
		"another is refused": {given: messages{refused(2), added(1), current(1), complete()}, want: true},
		"removed without a cause": {
			given: messages{targetChange(firestorepb.TargetChange_REMOVE, 1)}, wantCode: codes.Internal,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, w := newOfflineStream()
			for _, message := range c.given {
				must(t, s.handle(message))
			}
			got, err := w.told()
			if status.Code(err) != c.wantCode {
				t.Fatalf("error %v, want code %s", err, c.wantCode)
			}
			if got != c.want {
				t.Errorf("told of a record: %t, want %t", got, c.want)
			}
		})
	}
}

// newOfflineStream returns a stream with two watches of the same records, and the first of them.
func newOfflineStream() (*listenStream, *watch) {
	l := newListeners("projects/p/databases/d", nil)
	s := &listenStream{
		listeners: l, cancel: func() {}, room: maxTargets, queued: make(chan struct{}, 1), targets: map[int32]*watch{},
	}
	l.streams[s] = struct{}{}
	first := l.watch(noTarget, time.Time{}, false)
	l.watch(noTarget, time.Time{}, false)
	return s, first
}

// TestListenStream_BeginsAgainAfterABreak: the watch goes on shortly before the time up to which it was complete, and
// not where it began.
func TestListenStream_BeginsAgainAfterABreak(t *testing.T) {
	t.Parallel()
	s, w := newOfflineStream()
	tells := func(messages ...*firestorepb.ListenResponse) bool {
		for _, message := range messages {
			must(t, s.handle(message))
		}
		told, err := w.told()
		must(t, err)
		return told
	}
	if !tells(added(1), current(1), complete(), added(1)) {
		t.Error("the watch tells of no record before the break")
	}
	s.takeRequests()
	s.restart()
	if got := len(s.takeRequests()); got != 2 {
		t.Errorf("%d requests after the break, want one for each of 2 targets", got)
	}
	if got, want := w.reached(), completedAt.Add(-settling-clockSkew); !got.Equal(want) {
		t.Errorf("the watch goes on at %v, want %v", got, want)
	}
	if tells(complete()) {
		t.Error("the watch tells of a record before the target is current again")
	}
	if !tells(added(1), added(1), current(1), complete()) {
		t.Error("the watch tells of no record after the break")
	}
}

func TestListenStream_RefusesUnknownMessages(t *testing.T) {
	t.Parallel()
	for name, message := range map[string]*firestorepb.ListenResponse{
		"no content": {}, "unknown target change": targetChange(99, 1),
	} {
		if s, _ := newOfflineStream(); s.handle(message) == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

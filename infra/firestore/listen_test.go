package firestore

import (
	"context"
	"errors"
	"fmt"
	"reflect"
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
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

// setDocument writes a document that only has a number, and returns its name.
func (c *Client) setDocument(t *testing.T, id string, n int64) string {
	t.Helper()
	ref, _ := c.ref("watched", id)
	must(t, c.retryUntilDecided(t.Context(), func(ctx context.Context, _ bool) error {
		_, err := c.commit(ctx, c.batch().Set(ref, map[string]any{"n": n}))
		return err
	}))
	return ref.Path
}

// wantNumber checks the next state of a watch.
func wantNumber(t *testing.T, w *watch, want int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	doc, err := w.next(ctx)
	if got := doc.GetFields()["n"].GetIntegerValue(); err != nil || doc == nil || got != want {
		t.Errorf("watch of %s = %d, %v, want %d", w.name, got, err, want)
	}
}

// awaitNumber waits for a state of a watch.
func awaitNumber(t *testing.T, w *watch, want int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for got := int64(0); got != want; {
		doc, err := w.next(ctx)
		if err != nil {
			t.Fatalf("watch of %s = %v before it was %d", w.name, err, want)
		}
		got = doc.GetFields()["n"].GetIntegerValue()
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
	name := c.setDocument(t, "a", 1)
	var all []*watch
	calls := recorder.during(func() {
		for range 2*maxTargets + 1 {
			all = append(all, c.listeners.watch(name, false))
		}
		for _, w := range all {
			wantNumber(t, w, 1)
		}
	})
	if want := "Listen Listen Listen"; calls != want {
		t.Errorf("calls %q for %d watches, want %q", calls, len(all), want)
	}
	all[0].stop()
	again := c.listeners.watch(name, false)
	wantNumber(t, again, 1)
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

// TestWatch_OutlivesOthersOfItsStream also watches one document twice.
func TestWatch_OutlivesOthersOfItsStream(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	name, other := c.setDocument(t, "a", 1), c.setDocument(t, "b", 1)
	stays, same := c.listeners.watch(name, false), c.listeners.watch(name, false)
	another := c.listeners.watch(other, false)
	defer stays.stop()
	for _, w := range []*watch{stays, same, another} {
		wantNumber(t, w, 1)
	}
	same.stop()
	another.stop()
	for n := int64(2); n < 5; n++ {
		c.setDocument(t, "a", n)
		wantNumber(t, stays, n)
	}
	ref, _ := c.ref("watched", "a")
	_, err := ref.Delete(t.Context())
	must(t, err)
	if doc, err := stays.next(t.Context()); doc != nil || err != nil {
		t.Errorf("watch of a deleted document = %v, %v, want neither", doc, err)
	}
	c.setDocument(t, "a", 6)
	wantNumber(t, stays, 6)
}

// TestWatch_OutlivesABrokenStream breaks streams with many watches. One stream opens again for all of them, and not one
// for each. Whenever a stream breaks, a watch ends and another one begins.
func TestWatch_OutlivesABrokenStream(t *testing.T) {
	t.Parallel()
	for what, row := range map[string]struct {
		times int64
		when  func(*firestorepb.ListenResponse) bool
	}{
		"at the first message": {times: 4, when: func(*firestorepb.ListenResponse) bool { return true }},
		"before a target is current": {times: 2, when: func(r *firestorepb.ListenResponse) bool {
			return r.GetTargetChange().GetTargetChangeType() == firestorepb.TargetChange_CURRENT
		}},
		"at a change": {times: 1, when: func(r *firestorepb.ListenResponse) bool {
			return r.GetDocumentChange().GetDocument().GetFields()["n"].GetIntegerValue() == 2
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
				return status.Error(codes.Unavailable, "injected fault")
			}}
			c := open(t, "", b.options())
			var all []*watch
			for i := range maxTargets / 2 {
				all = append(all, c.listeners.watch(c.setDocument(t, strconv.Itoa(i), 1), false))
			}
			leaving := c.listeners.watch(all[0].name, false)
			breakIt = func() *watch {
				leaving.stop()
				return c.listeners.watch(leaving.name, false)
			}
			close(began)
			for i := range all {
				c.setDocument(t, strconv.Itoa(i), 2)
			}
			for range row.times {
				all = append(all, <-brokeOnce)
			}
			for _, w := range all {
				awaitNumber(t, w, 2)
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

// TestAwait_OutlivesAnotherDocumentThatFailsItsStream lets the service end each stream with a target for one document.
func TestAwait_OutlivesAnotherDocumentThatFailsItsStream(t *testing.T) {
	t.Parallel()
	var refused atomic.Pointer[string]
	c := open(t, "", (&brokenListener{times: 1000, fail: func(m proto.Message) error {
		name := m.(*firestorepb.ListenResponse).GetDocumentChange().GetDocument().GetName()
		if of := refused.Load(); of != nil && name == *of {
			return status.Error(codes.InvalidArgument, "injected fault")
		}
		return nil
	}}).options())
	fixture := agentFixture(c)
	org, other := fixture.Tenant(t, plan.Enterprise), fixture.Tenant(t, plan.Enterprise)
	a, bad := org.Create(plan.Pro), other.Create(plan.Pro)
	ref, _ := c.agent(bad.ID)
	refused.Store(&ref.Path)
	seen, ended := make(chan struct{}), make(chan error)
	go func() {
		var once sync.Once
		got, err := c.Agents(nil).Await(org.Ctx, a.ID, func(current agent.Agent) bool {
			once.Do(func() { close(seen) })
			return current.Rollout > a.Rollout
		})
		if err == nil && got.Rollout != a.Rollout+1 {
			err = fmt.Errorf("rollout %d, want %d", got.Rollout, a.Rollout+1)
		}
		ended <- err
	}()
	<-seen
	for range listenTries + 1 {
		_, err := c.Agents(nil).Await(other.Ctx, bad.ID, func(agent.Agent) bool { return false })
		if err == nil {
			t.Error("Await of the document that fails its streams returned no error")
		}
	}
	_, err := c.WorkerStore().Update(t.Context(), a, func(a *agent.Agent) { a.Rollout++ })
	must(t, err)
	if err := <-ended; err != nil {
		t.Errorf("Await of another document: %v", err)
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
			name := c.setDocument(t, "a", 1)
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					for range 25 {
						w := c.listeners.watch(name, false)
						wantNumber(t, w, 1)
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
	w := c.listeners.watch("projects/p/databases/(default)/documents/c/d", false)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("next = %v, want the context's error", err)
	}
	w.stop()
	stays := c.listeners.watch(w.name, false)
	must(t, c.Close())
	if _, err := stays.next(t.Context()); codeOf(err) != codes.Canceled {
		t.Errorf("next after close = %v, want Canceled", err)
	}
}

func TestListeners_TellWhyTheyCanNotConnect(t *testing.T) {
	t.Parallel()
	refused := errors.New("no credentials")
	l := newListeners("projects/p/databases/d", func() (*vkit.Client, error) { return nil, refused })
	if _, err := l.watch("a", false).next(t.Context()); !errors.Is(err, refused) {
		t.Errorf("next = %v, want the error of connecting", err)
	}
	must(t, l.close())
	if _, err := l.watch("a", false).next(t.Context()); codeOf(err) != codes.Canceled {
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

// complete means that everything before it was sent.
func complete() *firestorepb.ListenResponse {
	change := targetChange(firestorepb.TargetChange_NO_CHANGE)
	change.GetTargetChange().ReadTime = timestamppb.New(time.Unix(1, 0))
	return change
}

func changed(n int64, ids ...int32) *firestorepb.ListenResponse {
	value := &firestorepb.Value{ValueType: &firestorepb.Value_IntegerValue{IntegerValue: n}}
	return &firestorepb.ListenResponse{ResponseType: &firestorepb.ListenResponse_DocumentChange{
		DocumentChange: &firestorepb.DocumentChange{TargetIds: ids, Document: &firestorepb.Document{
			Name: "a", Fields: map[string]*firestorepb.Value{"n": value},
		}},
	}}
}

func deleted(ids ...int32) *firestorepb.ListenResponse {
	return &firestorepb.ListenResponse{ResponseType: &firestorepb.ListenResponse_DocumentDelete{
		DocumentDelete: &firestorepb.DocumentDelete{Document: "a", RemovedTargetIds: ids},
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

// missing is the state of a document that does not exist, and nothing that there is no new state.
const missing, nothing = -1, -2

// TestListenStream_FollowsTheProtocol sends messages to a watch with the target 1, which shares its stream with a watch
// of the same document with the target 2.
func TestListenStream_FollowsTheProtocol(t *testing.T) {
	t.Parallel()
	type messages = []*firestorepb.ListenResponse
	for name, c := range map[string]struct {
		given    messages
		want     int64
		wantCode codes.Code
	}{
		"nothing":                         {want: nothing},
		"a document":                      {given: messages{changed(1, 1), current(1), complete()}, want: 1},
		"a document before it is current": {given: messages{changed(1, 1), complete()}, want: nothing},
		"a document before it is complete": {
			given: messages{changed(1, 1), current(1)}, want: nothing,
		},
		"all targets become current":  {given: messages{changed(1, 1), current(), complete()}, want: 1},
		"a document of another watch": {given: messages{changed(1, 2), current(2), complete()}, want: nothing},
		"a document of both watches":  {given: messages{changed(1, 2, 1), current(1, 2), complete()}, want: 1},
		"a document of an ended watch": {
			given: messages{changed(1, 9), current(9), complete(), refused(9), counted(1, 9)}, want: nothing,
		},
		"only the newest state": {
			given: messages{changed(1, 1), current(1), complete(), changed(2, 1), complete(), changed(3, 1)}, want: 2,
		},
		"a deletion": {given: messages{changed(1, 1), current(1), complete(), deleted(1), complete()}, want: missing},
		"a deletion, and the document again": {
			given: messages{changed(1, 1), current(1), complete(), deleted(1), changed(2, 1), complete()}, want: 2,
		},
		"a document that never existed":            {given: messages{current(1), complete()}, want: missing},
		"a document that is reported not to exist": {given: messages{deleted(), current(1), complete()}, want: missing},
		"a reset": {
			given: messages{
				changed(1, 1), targetChange(firestorepb.TargetChange_RESET, 1), complete(), changed(2, 1), complete(),
			},
			want: nothing,
		},
		"a state after a reset": {
			given: messages{
				changed(1, 1), current(1), targetChange(firestorepb.TargetChange_RESET, 1), changed(2, 1), current(1),
				complete(),
			},
			want: 2,
		},
		"deleted during a reset": {
			given: messages{
				changed(1, 1), current(1), complete(), targetChange(firestorepb.TargetChange_RESET), current(1),
				complete(),
			},
			want: missing,
		},
		"a count that is right": {given: messages{changed(1, 1), current(1), complete(), counted(1, 1)}, want: 1},
		"a count that is wrong": {
			given: messages{changed(1, 1), current(1), complete(), counted(0, 1)}, wantCode: codes.Unavailable,
		},
		"refused":            {given: messages{refused(1)}, wantCode: codes.PermissionDenied},
		"another is refused": {given: messages{refused(2), changed(1, 1), current(1), complete()}, want: 1},
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
			state, err := w.take()
			if status.Code(err) != c.wantCode {
				t.Fatalf("error %v, want code %s", err, c.wantCode)
			}
			if got := numberIn(state); err == nil && got != c.want {
				t.Errorf("state %d, want %d", got, c.want)
			}
		})
	}
}

// newOfflineStream returns a stream with two watches of one document, and the first of them.
func newOfflineStream() (*listenStream, *watch) {
	l := newListeners("projects/p/databases/d", nil)
	s := &listenStream{
		listeners: l, cancel: func() {}, room: maxTargets, queued: make(chan struct{}, 1), targets: map[int32]*watch{},
	}
	l.streams[s] = struct{}{}
	first := l.watch("a", false)
	l.watch("a", false)
	return s, first
}

// TestListenStream_BeginsAgainAfterABreak: a document that the service does not send again was deleted in between.
func TestListenStream_BeginsAgainAfterABreak(t *testing.T) {
	t.Parallel()
	s, w := newOfflineStream()
	handle := func(messages ...*firestorepb.ListenResponse) int64 {
		for _, message := range messages {
			must(t, s.handle(message))
		}
		state, err := w.take()
		must(t, err)
		return numberIn(state)
	}
	if got := handle(changed(1, 1), current(1), complete(), changed(2, 1)); got != 1 {
		t.Errorf("state %d before the break, want 1", got)
	}
	s.takeRequests()
	s.restart()
	if got := len(s.takeRequests()); got != 2 {
		t.Errorf("%d requests after the break, want one for each of 2 targets", got)
	}
	if got := handle(complete()); got != nothing {
		t.Errorf("state %d before the target is current again, want none", got)
	}
	if got := handle(current(1), complete()); got != missing {
		t.Errorf("state %d, want a missing document", got)
	}
}

func numberIn(s *documentState) int64 {
	switch {
	case s == nil:
		return nothing
	case s.document == nil:
		return missing
	default:
		return s.document.GetFields()["n"].GetIntegerValue()
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

// TestAgentWait_NeverGoesBack: a listener that replaces another one may begin with an older state.
func TestAgentWait_NeverGoesBack(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	x := newTenantFixture(t, c)
	ref, _ := c.agent(x.agent.ID)
	watched := c.listeners.watch(ref.Path, false)
	defer watched.stop()
	older, err := watched.next(t.Context())
	must(t, err)
	_, err = c.WorkerStore().Update(t.Context(), x.agent, func(a *agent.Agent) { a.Rollout++ })
	must(t, err)
	newer, err := watched.next(t.Context())
	must(t, err)
	var seen []int64
	w := &agentWait{
		ref: ref, until: func(a agent.Agent) bool { seen = append(seen, a.Rollout); return false },
	}
	w.caller.OrganizationID = x.org.ID
	for _, doc := range []*firestorepb.Document{older, newer, older, newer} {
		_, err := w.check(doc)
		must(t, err)
	}
	if want := []int64{x.agent.Rollout, x.agent.Rollout + 1}; !reflect.DeepEqual(seen, want) {
		t.Errorf("the condition saw the rollouts %v, want %v", seen, want)
	}
}

// TestInDocument_AgreesWithTheLibrary compares a document that was received with the same one when it is read.
func TestInDocument_AgreesWithTheLibrary(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	ref, _ := c.ref("watched", "all")
	_, err := ref.Set(t.Context(), map[string]any{
		"null": nil, "flag": true, "number": 7, "fraction": 1.5, "text": "text", "bytes": []byte{1, 2},
		"time": time.Date(2026, 2, 3, 4, 5, 6, 789_000, time.UTC), "empty": []any{}, "none": map[string]any{},
		"list": []any{"a", 1, map[string]any{"b": nil}}, "map": map[string]any{"a": map[string]any{"b": []any{false}}},
	})
	must(t, err)
	snap, err := c.readOne(t.Context(), ref)
	must(t, err)
	w := c.listeners.watch(ref.Path, false)
	defer w.stop()
	doc, err := w.next(t.Context())
	must(t, err)
	find := inDocument(doc)
	for name, want := range snap.Data() {
		if got, err := find(name); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s = %#v, %v, want %#v", name, got, err, want)
		}
	}
	if got, err := find("missing"); got != nil || err != nil {
		t.Errorf("missing = %#v, %v, want nil", got, err)
	}
}

func TestInDocument_RefusesWhatIsNotStored(t *testing.T) {
	t.Parallel()
	bad := &firestorepb.Value{ValueType: &firestorepb.Value_ReferenceValue{ReferenceValue: "a"}}
	list := &firestorepb.Value{ValueType: &firestorepb.Value_ArrayValue{
		ArrayValue: &firestorepb.ArrayValue{Values: []*firestorepb.Value{bad}},
	}}
	for _, v := range []*firestorepb.Value{nil, {}, bad, list} {
		doc := &firestorepb.Document{Fields: map[string]*firestorepb.Value{"a": v}}
		if got, err := inDocument(doc)("a"); err == nil {
			t.Errorf("the field %v = %v, want an error", v, got)
		}
	}
}

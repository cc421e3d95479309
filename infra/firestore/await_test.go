package firestore

import (
	"context"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

// brokenListener makes the listeners of a client fail.
type brokenListener struct {
	// fail replaces what a listener received after skip messages.
	fail func(received proto.Message) error
	skip int
	// times is how many listeners fail, in addition to those that the service ends.
	times int64
	// recovered is called when a listener is opened that does not fail; nil calls nothing.
	recovered func()

	// opened counts all listeners, and lost those that the service ended with an error. The official emulator mixes up
	// the messages of a stream now and then when many documents change.
	opened, lost atomic.Int64
}

func (b *brokenListener) options() Options {
	return Options{DialOptions: []grpc.DialOption{aroundStreams(func(
		method string, open openStream,
	) (grpc.ClientStream, error) {
		stream, err := open()
		if err != nil || !strings.HasSuffix(method, "/Listen") {
			return stream, err
		}
		s := &brokenStream{ClientStream: stream, lost: &b.lost, fail: b.fail, skip: b.skip}
		if b.opened.Add(1)-b.lost.Load() > b.times {
			s.fail = func(proto.Message) error { return nil }
			if b.recovered != nil {
				b.recovered()
			}
		}
		return s, nil
	})}}
}

type brokenStream struct {
	grpc.ClientStream
	lost *atomic.Int64
	fail func(received proto.Message) error
	skip int
	// sending guards SendMsg, CloseSend and closed.
	sending sync.Mutex
	closed  bool
}

// SendMsg returns io.EOF once the stream is closed, as if the service had ended it. The stream below would reset itself
// instead, which can fail writes of the official emulator.
func (s *brokenStream) SendMsg(m any) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	if s.closed {
		return io.EOF
	}
	return s.ended(s.ClientStream.SendMsg(m))
}

// ended counts the stream as lost after an error, unless it was closed before. The caller holds the lock.
func (s *brokenStream) ended(err error) error {
	if err != nil && !s.closed {
		s.closed = true
		s.lost.Add(1)
	}
	return err
}

func (s *brokenStream) CloseSend() error {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.closed = true
	return s.ClientStream.CloseSend()
}

// RecvMsg ignores the message without content that the official emulator may send before it ends a stream.
func (s *brokenStream) RecvMsg(m any) error {
	for ignored := true; ignored; ignored = m.(*firestorepb.ListenResponse).GetResponseType() == nil {
		if err := s.ClientStream.RecvMsg(m); err != nil {
			s.sending.Lock()
			defer s.sending.Unlock()
			return s.ended(err)
		}
	}
	if s.skip--; s.skip >= 0 {
		return nil
	}
	err := s.fail(m.(proto.Message))
	if err == nil {
		return nil
	}
	// A service that fails a stream also ends it.
	_ = s.CloseSend()
	for s.ClientStream.RecvMsg(m) == nil {
	}
	return err
}

// TestAwait_ListensAgain: the service and the emulator end listeners now and then, also with a message that has no
// content, which fails the stream and its waits.
func TestAwait_ListensAgain(t *testing.T) {
	t.Parallel()
	empty := func(received proto.Message) error { proto.Reset(received); return nil }
	aborted := func(proto.Message) error { return status.Error(codes.Aborted, "injected fault") }
	// Two is one less than listenTries. A test that counted with it would follow a lower one.
	for name, b := range map[string]*brokenListener{
		"no content, from the start":   {fail: empty, times: 2},
		"no content, after some":       {fail: empty, times: 1, skip: 3},
		"aborted, from the start":      {fail: aborted, times: 2},
		"aborted, after some messages": {fail: aborted, times: 1, skip: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := open(t, "", b.options())
			org := agentFixture(c).Tenant(t, plan.Enterprise)
			a := org.Create(plan.Pro)
			recovered, updated := make(chan struct{}), make(chan error, 1)
			b.recovered = sync.OnceFunc(func() { close(recovered) })
			go func() {
				select {
				case <-recovered:
				case <-t.Context().Done():
					return
				}
				_, err := c.WorkerStore().Update(t.Context(), a, func(a *agent.Agent) { a.Name = "another" })
				updated <- err
			}()
			got, err := c.Agents(nil).Await(org.Ctx, a.ID, func(a agent.Agent) bool { return a.Name == "another" })
			if err != nil || got.Name != "another" {
				t.Fatalf("Await = %v, %v, want the agent with its new name", got, err)
			}
			must(t, <-updated)
			if b.opened.Load() <= b.times {
				t.Errorf("%d listeners were opened, want more than the %d that fail", b.opened.Load(), b.times)
			}
		})
	}
}

func TestAwait_GivesUpWhenNoListenerWorks(t *testing.T) {
	t.Parallel()
	aborted := func(proto.Message) error { return status.Error(codes.Aborted, "injected fault") }
	b := &brokenListener{fail: aborted, times: 1000}
	c := open(t, "", b.options())
	org := agentFixture(c).Tenant(t, plan.Enterprise)
	a := org.Create(plan.Pro)
	_, err := c.Agents(nil).Await(org.Ctx, a.ID, func(agent.Agent) bool { return false })
	if !fault.Is(err, fault.Unavailable) || b.opened.Load() != listenTries {
		t.Errorf("Await = %v after %d listeners, want Unavailable after %d", err, b.opened.Load(), listenTries)
	}
}

// TestAwait_ForgetsTheFetchedDocument: a wait must neither keep the document in memory nor answer with it in the end.
func TestAwait_ForgetsTheFetchedDocument(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	x := newTenantFixture(t, c)
	ctx, cancel := context.WithCancel(fetchedWithKey(t.Context(), t, c, x.key, agent.Document(x.agent.ID)))
	_, err := c.WorkerStore().Update(t.Context(), x.agent, func(a *agent.Agent) { a.Rollout++ })
	must(t, err)
	cancel()
	got, err := c.Agents(nil).Await(ctx, x.agent.ID, func(agent.Agent) bool { return false })
	if err != nil || got.Rollout != x.agent.Rollout+1 {
		t.Errorf("Await = rollout %d, %v, want the present %d", got.Rollout, err, x.agent.Rollout+1)
	}
	if call.From(ctx).Fetched.Snapshot(agent.Document(x.agent.ID)) != nil {
		t.Error("the call still has the document")
	}
}

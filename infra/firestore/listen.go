package firestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	vkit "cloud.google.com/go/firestore/apiv1"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// maxTargets bounds the waits that share a stream, and so how many one broken stream interrupts.
const maxTargets = 100

// errClosed ends the waits of a client that is closed.
var errClosed = status.Error(codes.Canceled, "the client is closed")

// listeners watches documents for waits. Waits share streams, because a stream costs far more memory than a target.
// Each wait has its own target, also when several waits watch one document: a new target begins with the document's
// present state, whereas the last state that another wait received may be older than what the caller has read.
type listeners struct {
	dial     func() (*vkit.Client, error)
	database string
	running  sync.WaitGroup

	dialing sync.Mutex
	client  *vkit.Client // nil until the first wait

	mu      sync.Mutex
	closed  bool
	streams map[*listenStream]struct{} // those that have targets
}

func newListeners(database string, dial func() (*vkit.Client, error)) *listeners {
	return &listeners{dial: dial, database: database, streams: map[*listenStream]struct{}{}}
}

// close ends all streams and the connection.
func (l *listeners) close() error {
	l.mu.Lock()
	l.closed = true
	for s := range l.streams {
		s.failLocked(errClosed)
	}
	l.mu.Unlock()
	l.running.Wait()
	if l.client == nil {
		return nil
	}
	return l.client.Close()
}

// connection returns the connection of the streams.
func (l *listeners) connection() (*vkit.Client, error) {
	l.dialing.Lock()
	defer l.dialing.Unlock()
	if l.client != nil {
		return l.client, nil
	}
	client, err := l.dial()
	if err != nil {
		return nil, err
	}
	l.client = client
	return client, nil
}

// watch begins to watch a document. The caller must stop the watch. An alone watch shares its stream with no other.
func (l *listeners) watch(name string, alone bool) *watch {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &watch{listeners: l, name: name, changed: make(chan struct{}, 1)}
	switch {
	case l.closed:
		w.end(errClosed)
	case alone:
		l.newStream(1).add(w)
	default:
		l.streamWithRoom().add(w)
	}
	return w
}

// streamWithRoom returns a stream that takes another target. The caller holds the lock.
func (l *listeners) streamWithRoom() *listenStream {
	for s := range l.streams {
		if len(s.targets) < s.room {
			return s
		}
	}
	return l.newStream(maxTargets)
}

// newStream starts a stream. The caller holds the lock, and adds a target.
func (l *listeners) newStream(room int) *listenStream {
	ctx, cancel := context.WithCancel(context.Background())
	s := &listenStream{
		listeners: l, cancel: cancel, room: room, backoff: reopening(), queued: make(chan struct{}, 1),
		targets: map[int32]*watch{},
	}
	l.streams[s] = struct{}{}
	l.running.Go(func() { s.run(ctx) })
	return s
}

const (
	// closeTimeout is how long the service may take to end a connection of a stream that has ended.
	closeTimeout = time.Second
	// A stream that breaks opens again after a random pause below the first one, which doubles up to the longest while
	// the stream receives nothing.
	firstReopening, longestReopening = 250 * time.Millisecond, 5 * time.Second
)

func reopening() gax.Backoff {
	return gax.Backoff{Initial: firstReopening, Max: longestReopening, Multiplier: 2}
}

// listenStream is a stream with at least one target. When it breaks, it opens again with all of them. It ends with its
// last target, or fails with all of them.
type listenStream struct {
	listeners *listeners
	cancel    context.CancelFunc // ends run
	room      int                // how many targets it takes
	backoff   gax.Backoff        // only for run
	queued    chan struct{}      // receives when requests were added

	// The lock of listeners guards the rest.
	targets  map[int32]*watch
	lastID   int32
	requests []*firestorepb.ListenRequest
}

// run keeps the stream open until ctx ends or an error occurs that opening it again hardly helps against.
func (s *listenStream) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := s.listen(ctx); !isTransient(err) {
			s.fail(err)
		}
		_ = gax.Sleep(ctx, s.backoff.Pause())
		s.restart()
	}
}

// isTransient reports whether an error of a stream is one after which Google's libraries open it again.
func isTransient(err error) bool {
	if errors.Is(err, io.EOF) {
		return true
	}
	known, ok := status.FromError(err)
	if !ok {
		return false
	}
	switch known.Code() {
	case codes.Unknown, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Internal, codes.Unavailable,
		codes.Unauthenticated:
		return true
	default:
		return false
	}
}

// listen opens the stream, sends what is queued and handles what it receives until ctx ends or the stream breaks. It
// closes the stream instead of canceling it, because a canceled stream can fail writes of the official emulator. It
// cancels a stream that the service does not end.
func (s *listenStream) listen(ctx context.Context) error {
	ctx, finish := context.WithCancel(ctx)
	defer finish()
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	context.AfterFunc(ctx, func() { time.AfterFunc(closeTimeout, cancel) })
	stream, err := s.open(streamCtx)
	if err != nil {
		return err
	}
	var sender sync.WaitGroup
	sender.Go(func() { s.sendQueued(ctx, stream) })
	for err == nil {
		var received *firestorepb.ListenResponse
		if received, err = stream.Recv(); err == nil {
			err = s.handle(received)
		}
	}
	finish()
	sender.Wait()
	for ended := false; !ended; { // the service may still send until it ends the stream
		_, recvErr := stream.Recv()
		ended = recvErr != nil
	}
	return err
}

// open does not repeat a failed attempt, because run does.
func (s *listenStream) open(ctx context.Context) (firestorepb.Firestore_ListenClient, error) {
	client, err := s.listeners.connection()
	if err != nil {
		return nil, err
	}
	ctx = metadata.AppendToOutgoingContext(ctx, "google-cloud-resource-prefix", s.listeners.database)
	return client.Listen(ctx, gax.WithRetry(func() gax.Retryer { return nil }))
}

// sendQueued sends requests until ctx ends or the stream breaks, of which receiving then tells the cause.
func (s *listenStream) sendQueued(ctx context.Context, stream firestorepb.Firestore_ListenClient) {
	defer func() { _ = stream.CloseSend() }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.queued:
		}
		for _, r := range s.takeRequests() {
			if stream.Send(r) != nil {
				return
			}
		}
	}
}

func (s *listenStream) takeRequests() []*firestorepb.ListenRequest {
	s.listeners.mu.Lock()
	defer s.listeners.mu.Unlock()
	requests := s.requests
	s.requests = nil
	return requests
}

// restart makes the next connection begin with all targets.
func (s *listenStream) restart() {
	s.listeners.mu.Lock()
	defer s.listeners.mu.Unlock()
	s.requests = nil
	for _, w := range s.targets {
		w.reset()
		s.sendAdd(w)
	}
}

// fail ends the stream and all its watches.
func (s *listenStream) fail(err error) {
	s.listeners.mu.Lock()
	defer s.listeners.mu.Unlock()
	s.failLocked(err)
}

// The caller holds the lock in all methods below, except handle.

func (s *listenStream) failLocked(err error) {
	for _, w := range s.targets {
		s.drop(w)
		w.end(err)
	}
}

func (s *listenStream) add(w *watch) {
	s.lastID++
	w.stream, w.id = s, s.lastID
	w.reset()
	s.targets[w.id] = w
	s.sendAdd(w)
}

// drop forgets a target. The stream ends with its last one.
func (s *listenStream) drop(w *watch) {
	delete(s.targets, w.id)
	if len(s.targets) == 0 {
		delete(s.listeners.streams, s)
		s.cancel()
	}
}

// remove drops a target that the service still has.
func (s *listenStream) remove(w *watch) {
	s.drop(w)
	s.send(&firestorepb.ListenRequest{TargetChange: &firestorepb.ListenRequest_RemoveTarget{RemoveTarget: w.id}})
}

func (s *listenStream) sendAdd(w *watch) {
	s.send(&firestorepb.ListenRequest{TargetChange: &firestorepb.ListenRequest_AddTarget{
		AddTarget: &firestorepb.Target{
			TargetId: w.id,
			TargetType: &firestorepb.Target_Documents{
				Documents: &firestorepb.Target_DocumentsTarget{Documents: []string{w.name}},
			},
		},
	}})
}

func (s *listenStream) send(r *firestorepb.ListenRequest) {
	r.Database = s.listeners.database
	s.requests = append(s.requests, r)
	notify(s.queued)
}

// handle applies a message to the watches. It returns an error for a message that it does not know.
func (s *listenStream) handle(received *firestorepb.ListenResponse) error {
	s.listeners.mu.Lock()
	defer s.listeners.mu.Unlock()
	switch r := received.GetResponseType().(type) {
	case *firestorepb.ListenResponse_TargetChange:
		return s.handleTargetChange(r.TargetChange)
	case *firestorepb.ListenResponse_DocumentChange:
		for _, id := range r.DocumentChange.GetTargetIds() {
			if w := s.targets[id]; w != nil {
				w.receive(r.DocumentChange.GetDocument())
			}
		}
	case *firestorepb.ListenResponse_DocumentDelete:
		s.receiveDeletion(r.DocumentDelete.GetDocument(), r.DocumentDelete.GetRemovedTargetIds())
	case *firestorepb.ListenResponse_DocumentRemove:
		s.receiveDeletion(r.DocumentRemove.GetDocument(), r.DocumentRemove.GetRemovedTargetIds())
	case *firestorepb.ListenResponse_Filter:
		// The service has one document or none. If the watch has missed a change, its wait watches again.
		w := s.targets[r.Filter.GetTargetId()]
		if w != nil && w.exists != (r.Filter.GetCount() == 1) {
			s.remove(w)
			w.end(status.Error(codes.Unavailable, "the listener missed a change"))
		}
	default:
		return fmt.Errorf("unknown message %T of a listener", r)
	}
	return nil
}

// receiveDeletion applies to all watches of the document if no targets are named.
func (s *listenStream) receiveDeletion(name string, ids []int32) {
	for _, w := range s.named(ids) {
		if w.name == name {
			w.receive(nil)
		}
	}
}

func (s *listenStream) handleTargetChange(change *firestorepb.TargetChange) error {
	for _, w := range s.named(change.GetTargetIds()) {
		switch change.GetTargetChangeType() {
		case firestorepb.TargetChange_ADD:
		case firestorepb.TargetChange_CURRENT:
			w.current = true
		case firestorepb.TargetChange_NO_CHANGE:
			if len(change.GetTargetIds()) == 0 && change.GetReadTime() != nil {
				s.backoff = reopening()
				w.deliver()
			}
		case firestorepb.TargetChange_RESET:
			w.reset()
		case firestorepb.TargetChange_REMOVE:
			s.drop(w)
			w.end(causeOf(change))
		default:
			return fmt.Errorf("unknown change %s of a listener's target", change.GetTargetChangeType())
		}
	}
	return nil
}

// named returns the watches with the ids, or all for no ids. An id may be that of a watch that has ended.
func (s *listenStream) named(ids []int32) []*watch {
	var found []*watch
	if len(ids) == 0 {
		for _, w := range s.targets {
			found = append(found, w)
		}
	}
	for _, id := range ids {
		if w := s.targets[id]; w != nil {
			found = append(found, w)
		}
	}
	return found
}

// causeOf returns why the service removed a target.
func causeOf(change *firestorepb.TargetChange) error {
	cause := change.GetCause()
	if cause == nil || cause.GetCode() == int32(codes.OK) {
		return status.Error(codes.Internal, "the service removed the target")
	}
	return status.Error(codes.Code(cause.GetCode()), cause.GetMessage())
}

package firestore

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

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

// isTransient reports whether an error of a stream is one after which Google's libraries open it again. Canceled comes
// from the service: a stream that ends here is closed first.
func isTransient(err error) bool {
	if errors.Is(err, io.EOF) {
		return true
	}
	known, ok := status.FromError(err)
	if !ok {
		return false
	}
	switch known.Code() {
	case codes.Canceled, codes.Unknown, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Internal,
		codes.Unavailable, codes.Unauthenticated:
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

// The caller holds the lock in all methods below.

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
			TargetId: w.id, TargetType: &firestorepb.Target_Query{Query: w.target(w.from)},
		},
	}})
}

func (s *listenStream) send(r *firestorepb.ListenRequest) {
	r.Database = s.listeners.database
	s.requests = append(s.requests, r)
	notify(s.queued)
}

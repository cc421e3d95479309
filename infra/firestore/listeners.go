package firestore

import (
	"context"
	"sync"
	"time"

	vkit "cloud.google.com/go/firestore/apiv1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maxTargets bounds the watches that share a stream, and so how many one broken stream interrupts.
const maxTargets = 100

// errClosed ends the watches of a client that is closed.
var errClosed = status.Error(codes.Canceled, "the client is closed")

// listeners watches the events of organizations. Watches share streams, because a stream costs far more memory than a
// target.
type listeners struct {
	dial     func() (*vkit.Client, error)
	database string
	running  sync.WaitGroup

	dialing sync.Mutex
	client  *vkit.Client // nil until the first watch

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

// watch begins to watch the results of a query from a time on. The caller must stop the watch. An alone watch shares
// its stream with no other.
func (l *listeners) watch(target targetFunc, from time.Time, alone bool) *watch {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &watch{listeners: l, target: target, from: from, changed: make(chan struct{}, 1)}
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

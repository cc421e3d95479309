package firestore

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"agents.example/controlplane/shared/parallel"
)

// maxRemembered bounds a cache. A full cache forgets everything, which is cheaper than tracking order: each id costs
// one more call.
const maxRemembered = 10_000

// recentClaims limits how often something is done for an id.
type recentClaims struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func newRecentClaims() *recentClaims { return &recentClaims{last: map[string]time.Time{}} }

// claim reports whether the id was not claimed within the interval, and claims it. Of concurrent claims only one is
// granted.
func (m *recentClaims) claim(id string, now time.Time, interval time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last, ok := m.last[id]; ok && now.Sub(last) < interval {
		return false
	}
	if len(m.last) >= maxRemembered {
		clear(m.last)
	}
	m.last[id] = now
	return true
}

// knownRecords remembers records by their paths.
type knownRecords struct {
	mu    sync.Mutex
	known map[string]knownRecord
}

// knownRecord is what was last known of a record.
type knownRecord struct {
	// claims are the claims of a token with which the record agrees.
	claims string
	// sessionsEnded is that of a membership.
	sessionsEnded time.Time
	readAt        time.Time
}

func newKnownRecords() *knownRecords { return &knownRecords{known: map[string]knownRecord{}} }

// get returns what is known of a record.
func (r *knownRecords) get(path string) (known knownRecord, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok = r.known[path]
	return known, ok
}

// remember records what is known of a record.
func (r *knownRecords) remember(path string, known knownRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= maxRemembered {
		clear(r.known)
	}
	r.known[path] = known
}

// forget makes the next get find nothing.
func (r *knownRecords) forget(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, path)
}

// maxBackground is how many calls may run in the background without their callers. Further calls are dropped, which
// their callers accept.
const maxBackground = 64

// background runs calls that a request does not wait for, or not to their end.
type background struct {
	mu     sync.Mutex
	closed bool
	slots  chan struct{}
	wait   sync.WaitGroup
}

func newBackground() *background { return &background{slots: make(chan struct{}, maxBackground)} }

// run starts a call, unless too many run already or close was called.
func (b *background) run(ctx context.Context, call func(context.Context)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	select {
	case b.slots <- struct{}{}:
	default:
		return
	}
	b.wait.Go(func() {
		defer func() { <-b.slots }()
		detached(ctx, call)
	})
}

// start starts a call, unless close was called, and returns a channel that is closed when it ends.
func (b *background) start(ctx context.Context, call func(context.Context)) <-chan struct{} {
	done := make(chan struct{})
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		slog.WarnContext(ctx, "the database is closed; nothing is published about its last changes")
		close(done)
		return done
	}
	b.wait.Go(func() {
		defer close(done)
		detached(ctx, call)
	})
	return done
}

// detached makes a call with the values of ctx, but without its end. A panic ends only the call.
func detached(ctx context.Context, call func(context.Context)) {
	err := parallel.Recover(func() error {
		call(context.WithoutCancel(ctx))
		return nil
	})
	if err != nil {
		slog.ErrorContext(ctx, "background call panicked", "error", err)
	}
}

// close waits for running calls. From then on, none starts.
func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.wait.Wait()
}

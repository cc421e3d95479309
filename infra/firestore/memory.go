package firestore

import (
	"context"
	"sync"
	"time"
)

// maxRemembered bounds a memory. A full one forgets everything: each id then costs one more look, which is cheaper than
// keeping order.
const maxRemembered = 10_000

// recentlySeen remembers when something was last done for an id.
type recentlySeen struct {
	mu   sync.Mutex
	seen map[string]time.Time
}

func newRecentlySeen() *recentlySeen { return &recentlySeen{seen: map[string]time.Time{}} }

// claim remembers the id and reports true, unless it was remembered less than interval before. Of several claims at
// once one is granted.
func (m *recentlySeen) claim(id string, now time.Time, interval time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last, ok := m.seen[id]; ok && now.Sub(last) < interval {
		return false
	}
	if len(m.seen) >= maxRemembered {
		clear(m.seen)
	}
	m.seen[id] = now
	return true
}

// knownRecords remembers what was last known of an id.
type knownRecords struct {
	mu    sync.Mutex
	known map[string]string
}

func newKnownRecords() *knownRecords { return &knownRecords{known: map[string]string{}} }

// holds reports whether the fact is what was last known of the id.
func (f *knownRecords) holds(id, fact string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, ok := f.known[id]
	return ok && last == fact
}

// remember remembers the fact.
func (f *knownRecords) remember(id, fact string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.known) >= maxRemembered {
		clear(f.known)
	}
	f.known[id] = fact
}

// maxBackground is how many calls run in the background at most. More are left out: what runs there may be lost.
const maxBackground = 64

// background runs calls that nobody waits for, except the end of the process.
type background struct {
	mu     sync.Mutex
	closed bool
	slots  chan struct{}
	wait   sync.WaitGroup
}

func newBackground() *background { return &background{slots: make(chan struct{}, maxBackground)} }

// run starts a call, unless too many run or the end has come. The call keeps the values of ctx and lives past its end.
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
		call(context.WithoutCancel(ctx))
	})
}

// close waits for the calls that run and starts none from then on.
func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.wait.Wait()
}

//go:build unix

package pubsubemu

import (
	"context"
	"math"
	"sync"
	"time"
)

// The flow control of push subscriptions, as https://cloud.google.com/pubsub/docs/push describes it under "Delivery
// rate" and "Push backoff" (read in 2026-11). What the page leaves open is an assumption, and marked as one.
const (
	// defaultInitialWindow: "The system starts with a small single-digit window size." The digit is an assumption.
	defaultInitialWindow = 5
	// linearFrom: "After 3,000 outstanding messages per region, the window increases linearly." Below, it "increases
	// exponentially": one more request for each acknowledgement doubles it in the time of one request.
	linearFrom = 3000
	// failureFactor shrinks the window, which "decreases on any failure". By how much is an assumption.
	failureFactor = 0.5
	// minPushBackoff and maxPushBackoff: "This time span can range between 100 milliseconds to 60 seconds."
	minPushBackoff = 100 * time.Millisecond
	maxPushBackoff = 60 * time.Second
	// acksPerBackoffStep is how many acknowledgements undo what one negative acknowledgement did. The page has only two
	// examples: at one negative of five messages a second, a message is delivered every 500 ms; at five of five, every
	// 30 to 60 s. So one in five keeps the back-off where it is, more let it grow, and fewer let it end.
	acksPerBackoffStep = 4
)

// window limits the requests of one push subscription. Every outstanding request occupies a place of the window until
// its endpoint answers, so slow requests use the window up even if they succeed. A negative acknowledgement, or a
// request that times out, makes the window smaller and pauses all messages of the subscription.
type window struct {
	limit         int           // the most that this machine sends
	maxPushPause  time.Duration // the longest pause
	mu            sync.Mutex
	size          float64
	outstanding   int
	pauseExponent float64 // the next pause is minPushBackoff * 2^pauseExponent; below 0 there is none
	resumeAt      time.Time
	changed       chan struct{} // closed when a place may be free
}

func newWindow(initial, limit int, maxPause time.Duration) *window {
	return &window{
		limit: limit, maxPushPause: maxPause, size: float64(min(initial, limit)), pauseExponent: -1,
		changed: make(chan struct{}),
	}
}

// acquire waits until the subscription is not paused and its window has places, takes all of them, and returns their
// number; 0 if ctx has ended.
func (w *window) acquire(ctx context.Context) int {
	for ctx.Err() == nil {
		free, pause, changed := w.take()
		if free > 0 {
			return free
		}
		if !wait(ctx, pause, changed) {
			break
		}
	}
	return 0
}

func (w *window) take() (free int, pause time.Duration, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if pause = time.Until(w.resumeAt); pause > 0 {
		return 0, pause, w.changed
	}
	free = max(0, int(w.size)-w.outstanding)
	w.outstanding += free
	return free, 0, w.changed
}

// wait returns after the pause, if there is one, or as soon as changed is closed. It is false if ctx ended first.
func wait(ctx context.Context, pause time.Duration, changed <-chan struct{}) bool {
	var over <-chan time.Time
	if pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
	case <-changed:
	case <-ctx.Done():
		return false
	}
	return true
}

// awaitResumption waits until the subscription is not paused, and reports whether it had to wait. It is for messages
// that were pulled before the pause.
func (w *window) awaitResumption(ctx context.Context) (waited bool) {
	for ctx.Err() == nil {
		w.mu.Lock()
		pause, changed := time.Until(w.resumeAt), w.changed
		w.mu.Unlock()
		if pause <= 0 {
			break
		}
		waited = true
		wait(ctx, pause, changed)
	}
	return waited
}

// giveBack returns places for which there was no message.
func (w *window) giveBack(places int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outstanding -= places
	w.wake()
}

// finish ends a request, and adapts the window and the pause to its outcome.
func (w *window) finish(acked bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.wake()
	w.outstanding--
	if acked {
		w.size = min(w.size+growth(w.size), float64(w.limit))
		w.pauseExponent = max(-1, w.pauseExponent-1.0/acksPerBackoffStep)
		return
	}
	w.size = max(1, w.size*failureFactor)
	w.pauseExponent++
	pause := time.Duration(min(float64(minPushBackoff)*math.Exp2(w.pauseExponent), float64(w.maxPushPause)))
	w.pauseExponent = min(w.pauseExponent, math.Log2(float64(maxPushBackoff)/float64(minPushBackoff)))
	if until := time.Now().Add(pause); until.After(w.resumeAt) {
		w.resumeAt = until
	}
}

// growth is what one acknowledgement adds to a window.
func growth(size float64) float64 {
	if size < linearFrom {
		return 1
	}
	return 1 / size
}

// wake lets waiting calls look again. The caller holds the lock.
func (w *window) wake() {
	close(w.changed)
	w.changed = make(chan struct{})
}

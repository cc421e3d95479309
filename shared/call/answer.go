package call

import (
	"sync"
	"time"
)

// answerPatience is how long an answer waits for what its call has begun. Publishing takes some 20 ms, and less than a
// second on a new connection. While Pub/Sub is out of order, each answer takes this much longer.
const answerPatience = time.Second

// Answer holds the answer of a call back until what the call has begun is done. Cloud Run takes the CPU away after an
// answer: what is not done by then stands still, possibly until the instance is gone.
type Answer struct {
	mu    sync.Mutex
	begun []<-chan struct{}
}

// WaitFor makes the answer wait until done is closed. Without an answer, the caller waits instead.
func (a *Answer) WaitFor(done <-chan struct{}) {
	if a == nil {
		wait([]<-chan struct{}{done})
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begun = append(a.begun, done)
}

// Wait returns when what the call has begun is done, after at most a second.
func (a *Answer) Wait() {
	a.mu.Lock()
	begun := a.begun
	a.begun = nil
	a.mu.Unlock()
	wait(begun)
}

func wait(begun []<-chan struct{}) {
	if len(begun) == 0 {
		return
	}
	patience := time.NewTimer(answerPatience)
	defer patience.Stop()
	for _, done := range begun {
		select {
		case <-done:
		case <-patience.C:
			return
		}
	}
}

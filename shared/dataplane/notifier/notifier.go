// Package notifier turns changes of agents' pods, namespaces and volumes into nudges, so that a worker looks at an
// agent as soon as there is something to see. It does the same with the router's requests to wake an agent. It does not
// watch a cluster (infra/gke/cellwatch does) and does not decide what a change means for an agent (package provisioning
// does).
//
// A nudge that is lost with the process only delays the work: the sweep repeats it.
package notifier

import (
	"container/heap"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/logevent"
)

const (
	// gap is the minimum time between two nudges of one agent. Changes in between become one nudge.
	gap = 250 * time.Millisecond
	// firstRetry and maxRetry bound the wait before a nudge that could not be published is published again.
	firstRetry = time.Second
	maxRetry   = 30 * time.Second
	// publishers is how many nudges are published concurrently.
	publishers = 16
	// maxAgents bounds how many agents wait for a nudge. A cell has at most some thousand agents.
	maxAgents = 50_000
)

// Nudger publishes nudges of both kinds.
type Nudger interface {
	agent.Nudger
	agent.WakeNudger
}

// Notifier publishes nudges. Its methods for changes return immediately and are safe for concurrent use.
type Notifier struct {
	nudger Nudger

	mu     sync.Mutex
	agents map[string]*entry
	queue  queue
	// dropped is true from the first nudge that found no room until there is room again.
	dropped bool
	// woken receives a value when the queue has a new first entry.
	woken chan struct{}
}

// New creates a notifier. Nudges wait until Run is called.
func New(nudger Nudger) *Notifier {
	return &Notifier{nudger: nudger, agents: map[string]*entry{}, woken: make(chan struct{}, 1)}
}

// entry is an agent that has a nudge to be published, or had one less than gap ago.
type entry struct {
	agentID string
	// changed says that something happened since the last nudge was published.
	changed bool
	// wake says that the next nudge wakes the agent.
	wake     bool
	failures int
	due      time.Time
	// index is the place in the queue, -1 while a nudge is being published.
	index int
}

// nudge makes a nudge due: immediately, or gap after the last one of the agent. wake says that it wakes the agent. It
// reports whether there was room for it.
func (n *Notifier) nudge(agentID string, wake bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.agents[agentID]; e != nil {
		e.changed = true
		e.wake = e.wake || wake
		return true
	}
	if len(n.agents) >= maxAgents {
		if !n.dropped {
			n.dropped = true
			slog.Error("too many agents wait for a nudge; the sweep nudges the rest",
				string(logevent.Key), string(logevent.NudgeNotPublished))
		}
		return false
	}
	n.dropped = false
	e := &entry{agentID: agentID, changed: true, wake: wake, due: time.Now()}
	n.agents[agentID] = e
	n.push(e)
	return true
}

// push puts an entry into the queue. The caller holds mu.
func (n *Notifier) push(e *entry) {
	heap.Push(&n.queue, e)
	if e.index == 0 {
		select {
		case n.woken <- struct{}{}:
		default:
		}
	}
}

// Run publishes nudges until ctx ends, and then waits for those that are being published.
func (n *Notifier) Run(ctx context.Context) {
	var publishing sync.WaitGroup
	defer publishing.Wait()
	slots := make(chan struct{}, publishers)
	for {
		e, wake, wait := n.next()
		if e == nil {
			if !n.sleep(ctx, wait) {
				return
			}
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		publishing.Go(func() {
			defer func() { <-slots }()
			n.publish(ctx, e, wake)
		})
	}
}

// next takes the entry whose nudge is due, and says whether it wakes the agent. Without one it returns how long to
// wait, zero for until there is a change.
func (n *Notifier) next() (e *entry, wake bool, wait time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.queue) > 0 {
		if wait := time.Until(n.queue[0].due); wait > 0 {
			return nil, false, wait
		}
		e := heap.Pop(&n.queue).(*entry)
		if !e.changed {
			delete(n.agents, e.agentID) // nothing happened since its last nudge
			continue
		}
		// A change from here on is later than what the worker will see for certain, and needs another nudge.
		wake := e.wake
		e.changed, e.wake = false, false
		return e, wake, 0
	}
	return nil, false, 0
}

// sleep waits until a nudge may be due, and reports false when ctx has ended.
func (n *Notifier) sleep(ctx context.Context, wait time.Duration) bool {
	var due <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-due:
	case <-n.woken:
	}
	return true
}

func (n *Notifier) publish(ctx context.Context, e *entry, wake bool) {
	send := n.nudger.Nudge
	if wake {
		send = n.nudger.Wake
	}
	err := send(ctx, e.agentID)
	n.mu.Lock()
	defer n.mu.Unlock()
	wait := gap
	if err != nil {
		e.changed, e.wake = true, e.wake || wake
		wait = retryDelay(e.failures)
		e.failures++
		if ctx.Err() == nil { // a process that ends leaves the nudge to the sweep
			slog.WarnContext(ctx, "nudge could not be published; it will be repeated", logevent.Key,
				logevent.NudgeNotPublished, "agent_id", e.agentID, "failures", e.failures, "retry_in", wait.String(),
				"error", err.Error())
		}
	} else {
		e.failures = 0
	}
	e.due = time.Now().Add(wait)
	n.push(e)
}

// retryDelay doubles with every failure. It is jittered, so that nudges that failed together are not repeated together.
func retryDelay(failures int) time.Duration {
	delay := maxRetry
	if failures < 5 {
		delay = min(maxRetry, firstRetry<<failures)
	}
	return delay/2 + rand.N(delay/2)
}

// queue orders entries by the time at which they are due. It implements heap.Interface.
type queue []*entry

// Len implements heap.Interface.
func (q queue) Len() int { return len(q) }

// Less implements heap.Interface.
func (q queue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }

// Swap implements heap.Interface.
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *queue) Push(x any) {
	e := x.(*entry)
	e.index = len(*q)
	*q = append(*q, e)
}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	e.index = -1
	return e
}

// errFull means that too many agents wait for a nudge.
var errFull = errors.New("too many agents wait for a nudge")

// Wake makes a nudge due that wakes an agent if it sleeps.
func (n *Notifier) Wake(_ context.Context, agentID string) error {
	if !n.nudge(agentID, true) {
		return errFull
	}
	return nil
}

// ServeWake is the handler of POST /wake/{id}. It answers 202 when the nudge is due, and reads no body.
func (n *Notifier) ServeWake(w http.ResponseWriter, req *http.Request) {
	id := req.PathValue("id")
	if parsed, err := uuid.Parse(id); err != nil || parsed.String() != id {
		http.Error(w, "the path must end with the id of an agent", http.StatusBadRequest)
		return
	}
	if err := n.Wake(req.Context(), id); err != nil {
		w.Header().Set("Retry-After", "5")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// WakePath is the pattern of ServeWake.
const WakePath = "POST /wake/{id}"

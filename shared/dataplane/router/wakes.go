package router

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"agents.example/controlplane/shared/agent"
)

// Waker asks for agents to be woken.
type Waker interface {
	// Wake returns when a worker is certain to look whether the agent sleeps, or with an error.
	Wake(ctx context.Context, agentID string) error
}

const (
	// wakeTime bounds a call of the Waker.
	wakeTime = 2 * time.Second
	// wakeAgain is the time after which the wake of an agent is asked for again while requests for it are held, and
	// wakeRetry after a call that failed.
	wakeAgain = 5 * time.Second
	wakeRetry = time.Second
	// maxWakes bounds the calls at a time.
	maxWakes = 64
)

// wakes asks for the wakes of all agents, in the order in which their requests came. An agent has one call at a time.
type wakes struct {
	router *Router
	waker  Waker
	// life ends the calls.
	life context.Context
	end  context.CancelFunc

	mu      sync.Mutex
	queue   []*route
	callers int
	closed  bool
	running sync.WaitGroup
}

func newWakes(r *Router, waker Waker) *wakes {
	w := &wakes{router: r, waker: waker}
	w.life, w.end = context.WithCancel(context.Background())
	return w
}

// ask asks for the wake of an agent, unless that was done lately.
func (w *wakes) ask(a *route, now time.Time) {
	if now.UnixNano() < a.wakeDue.Load() || !a.wakeAsked.CompareAndSwap(false, true) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.queue = append(w.queue, a)
	if w.callers < maxWakes {
		w.callers++
		w.running.Go(w.call)
	}
}

// call makes calls until the queue is empty.
func (w *wakes) call() {
	for a := w.next(); a != nil; a = w.next() {
		wait := wakeAgain
		if err := w.wake(a); err == nil {
			w.router.metrics.wakesAsked.Inc()
		} else {
			wait = wakeRetry
			w.router.metrics.wakesFailed.Inc()
			if w.life.Err() == nil && w.router.failures.Allow() {
				slog.Warn("the wake of an agent could not be asked for; that is repeated while requests wait for it",
					"namespace", a.namespace, "error", err.Error())
			}
		}
		a.wakeDue.Store(time.Now().Add(wait).UnixNano())
		a.wakeAsked.Store(false)
	}
}

func (w *wakes) wake(a *route) error {
	id, _ := agent.IDFromNamespace(a.namespace) // a route's namespace has one
	ctx, cancel := context.WithTimeout(w.life, wakeTime)
	defer cancel()
	return w.waker.Wake(ctx, id)
}

// next takes the first agent of the queue. It returns nil, and counts the caller as gone, if there is none.
func (w *wakes) next() *route {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 || w.closed {
		w.queue = nil
		w.callers--
		return nil
	}
	a := w.queue[0]
	w.queue[0] = nil
	w.queue = w.queue[1:]
	return a
}

// close ends the calls, and waits for them.
func (w *wakes) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.end()
	w.running.Wait()
}

// Notifier is the Waker that calls the notifier of a cell.
type Notifier struct {
	base   *url.URL
	client *http.Client
}

// NewNotifier returns a Waker for the notifier at a URL without a path, such as http://agent-notifier:8080.
func NewNotifier(base string) (*Notifier, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" && u.Path != "/" ||
		u.RawQuery != "" {
		return nil, fmt.Errorf("router: %q is not the URL of a notifier, such as http://agent-notifier:8080", base)
	}
	return &Notifier{base: u, client: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: maxWakes, IdleConnTimeout: 30 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}}, nil
}

// Wake implements Waker.
func (n *Notifier) Wake(ctx context.Context, agentID string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.base.JoinPath("wake", agentID).String(), nil)
	if err != nil {
		return fmt.Errorf("ask the notifier: %w", err)
	}
	res, err := n.client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the notifier: %w", err)
	}
	_ = res.Body.Close() // the answer has no body
	if res.StatusCode != http.StatusAccepted {
		return fmt.Errorf("the notifier answers %d, want 202", res.StatusCode)
	}
	return nil
}

// Close closes the connections that are not in use.
func (n *Notifier) Close() { n.client.CloseIdleConnections() }

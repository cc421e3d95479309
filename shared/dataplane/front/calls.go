package front

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"agents.example/controlplane/shared/dataplane"
)

const (
	// maxCalls bounds the calls that are remembered, and maxRunning those that run. A worker orders one a minute.
	maxCalls   = 256
	maxRunning = 32
	// maxCallID bounds the id of a call.
	maxCallID = 64
)

// calls makes the calls of schedules: one for each id, however often it is ordered.
type calls struct {
	// name is that of this process.
	name string
	now  func() time.Time
	make func(ctx context.Context, id string, o dataplane.CallOrder) dataplane.CallResult
	// door counts the calls that run as use of the agent.
	door *door

	life    context.Context //nolint:containedctx // of the calls, which outlive the requests that order them
	end     context.CancelFunc
	pending sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	running int
	known   map[string]*callState
}

type callState struct {
	result dataplane.CallResult
	// endedAt is zero while the call runs.
	endedAt time.Time
}

func newCalls(now func() time.Time, d *door,
	makeCall func(context.Context, string, dataplane.CallOrder) dataplane.CallResult,
) *calls {
	life, end := context.WithCancel(context.Background())
	return &calls{
		name: rand.Text(), now: now, door: d, make: makeCall, life: life, end: end, known: map[string]*callState{},
	}
}

// close ends the calls that run.
func (c *calls) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.end()
	c.pending.Wait()
}

// errBusy means that too many calls are remembered or run, or that the agent is about to end.
var errBusy = errors.New("the front makes no call now")

// order begins a call, unless one with the id is known.
func (c *calls) order(id string, o dataplane.CallOrder) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
	if c.known[id] != nil {
		return nil
	}
	if c.closed || c.running >= maxRunning || len(c.known) >= maxCalls || !c.door.enter() {
		return errBusy
	}
	state := &callState{result: dataplane.CallResult{Outcome: dataplane.CallRunning}}
	c.known[id] = state
	c.running++
	c.pending.Go(func() {
		defer c.door.leave()
		ctx, cancel := context.WithTimeout(c.life, dataplane.CallTime)
		defer cancel()
		begun := time.Now()
		result := c.make(ctx, id, o)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && result.Outcome == dataplane.CallFailed {
			result.Outcome = dataplane.CallTimedOut
		}
		result.DurationMS = time.Since(begun).Milliseconds()
		c.mu.Lock()
		defer c.mu.Unlock()
		state.result, state.endedAt = result, c.now()
		c.running--
	})
	return nil
}

// forget removes the calls that ended long ago. The caller holds the lock.
func (c *calls) forget() {
	for id, state := range c.known {
		if !state.endedAt.IsZero() && c.now().Sub(state.endedAt) > dataplane.CallMemory {
			delete(c.known, id)
		}
	}
}

// report tells what is known of calls.
func (c *calls) report(ids []string) dataplane.CallReport {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := dataplane.CallReport{Front: c.name, Calls: map[string]dataplane.CallResult{}}
	for _, id := range ids[:min(len(ids), dataplane.MaxReported)] {
		if state := c.known[id]; state != nil {
			r.Calls[id] = state.result
		}
	}
	return r
}

// serveCalls reports on calls, and takes orders. Only the agent's API key gives orders.
func (f *Front) serveCalls(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	id := strings.TrimPrefix(strings.TrimPrefix(req.URL.Path, dataplane.PathCalls), "/")
	v := f.authenticate(req, f.credentials.api)
	switch {
	case v.status != http.StatusOK:
		f.challenge(w, v, true)
	case f.draining.Load():
		w.Header().Set("Retry-After", "1")
		refuse(w, true, http.StatusServiceUnavailable, "The agent's pod is about to end.")
	case req.Method == http.MethodGet && id == "":
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(f.calls.report(req.URL.Query()["id"])) // an error means that the client left
	case req.Method == http.MethodPut && id != "" && len(id) <= maxCallID && printable(id):
		f.takeOrder(w, req, id)
	default:
		refuse(w, true, http.StatusNotFound, "There is a report on calls, and orders of calls with an id.")
	}
}

// takeOrder begins a call.
func (f *Front) takeOrder(w http.ResponseWriter, req *http.Request, id string) {
	var o dataplane.CallOrder
	err := json.NewDecoder(http.MaxBytesReader(w, req.Body, dataplane.MaxOrderBytes)).Decode(&o)
	if err == nil {
		err = dataplane.CheckCallPath(o.Path)
	}
	if err == nil && !printable(o.Schedule) {
		err = errors.New("the schedule has no name that a header can have")
	}
	switch {
	case err != nil:
		refuse(w, true, http.StatusBadRequest, fmt.Sprintf("The order is not valid: %v.", err))
	case o.Front != f.calls.name:
		refuse(w, true, http.StatusConflict, "The order is for another process of the front.")
	case f.calls.order(id, o) != nil:
		w.Header().Set("Retry-After", "60")
		refuse(w, true, http.StatusServiceUnavailable, "The agent makes no call now. Retry.")
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// callContainer makes a call.
func (f *Front) callContainer(ctx context.Context, id string, o dataplane.CallOrder) dataplane.CallResult {
	failed := dataplane.CallResult{Outcome: dataplane.CallFailed}
	port := f.options.Port
	if api, _ := isAPI(o.Path); api {
		port = f.options.APIPort
	}
	target := url.URL{Scheme: "http", Host: loopback(port), Path: o.Path}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), strings.NewReader(o.Body))
	if err != nil {
		return failed
	}
	f.prepareCall(req, id, o)
	// A connection that was used before would make the transport send the call again if it closes: the header
	// Idempotency-Key says that this does no harm, and the container need not know the header.
	transport := newTransport()
	transport.DisableKeepAlives = true
	res, err := bounded{transport}.RoundTrip(req)
	if err != nil {
		return failed
	}
	defer func() { _ = res.Body.Close() }() // read
	if _, err := io.CopyBuffer(writeOnly{io.Discard}, readOnly{res.Body}, make([]byte, copyBytes)); err != nil {
		return failed
	}
	return dataplane.CallResult{Outcome: dataplane.CallAnswered, Status: res.StatusCode}
}

// prepareCall sets the headers of a call, which the container gets as one of a caller of its API.
func (f *Front) prepareCall(req *http.Request, id string, o dataplane.CallOrder) {
	h := req.Header
	h.Set("User-Agent", "agent-front")
	h.Set("Content-Type", "text/plain; charset=utf-8")
	if json.Valid([]byte(o.Body)) {
		h.Set("Content-Type", "application/json")
	}
	h.Set(dataplane.HeaderSchedule, o.Schedule)
	h.Set(dataplane.HeaderIdempotencyKey, id)
	if f.options.Hostname != "" {
		req.Host = f.options.Hostname
		h.Set("X-Forwarded-Host", f.options.Hostname)
	}
	setPerson(h, verdict{person: person{id: apiUser}, way: wayAPI})
	if f.options.ForwardCredentials {
		h.Set("Authorization", "Bearer "+f.options.Credentials.APIKey)
	}
}

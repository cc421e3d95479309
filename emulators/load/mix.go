package load

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// operation is what the clients of each good organization do regularly, within the documented limits.
type operation struct {
	kind  string
	every time.Duration
	run   func(*goodClient, context.Context)
}

// operations is the mix: about eight requests a second in each organization, half of them with a session.
func operations() []operation {
	return []operation{
		{kind: "poll", every: 400 * time.Millisecond, run: (*goodClient).poll},
		{kind: "get", every: 700 * time.Millisecond, run: (*goodClient).get},
		{kind: "list", every: time.Second, run: read("list", "/api/v1/agents")},
		{kind: "metrics", every: 1100 * time.Millisecond, run: (*goodClient).metrics},
		{kind: "me", every: 1300 * time.Millisecond, run: read("me", "/api/v1/me")},
		{
			kind: "organization", every: 1700 * time.Millisecond,
			run: read("organization", "/api/v1/organizations/current"),
		},
		{kind: "secrets", every: 1900 * time.Millisecond, run: (*goodClient).listSecrets},
		{kind: "patch", every: 3 * time.Second, run: (*goodClient).rename},
		{kind: "put secret", every: 5 * time.Second, run: (*goodClient).putSecret},
		{kind: start, every: 16 * time.Second, run: (*goodClient).startAndDelete},
	}
}

// startPatience is how long a client waits until a new agent runs.
const startPatience = 2 * time.Minute

// goodClient is the clients of one organization during a phase.
type goodClient struct {
	*apiClient
	*tenant
	record func(outcome) // counts outcomes of the measurement
	etag   atomic.Pointer[string]
	count  atomic.Int64
}

// runGoodClients runs the clients of all organizations until the phase is over and each request has ended.
func (r *runner) runGoodClients(ctx context.Context, c *apiClient, into *tally) {
	var running sync.WaitGroup
	begin := time.Now()
	for i, t := range r.good {
		s := &goodClient{apiClient: c, tenant: t, record: func(o outcome) {
			if time.Now().Add(-o.took).After(begin.Add(r.Lead)) {
				into.add(o)
			}
		}}
		for j, op := range operations() {
			// The organizations and operations take turns.
			offset := op.every * time.Duration((i+j)%goodTenants) / goodTenants
			running.Go(func() { s.repeat(ctx, op, offset, r.Lead+r.Phase, &running) })
		}
	}
	running.Wait()
}

// repeat starts an operation regularly for a time, without waiting for its answers: slow answers keep no client from
// its next request.
func (s *goodClient) repeat(ctx context.Context, op operation, offset, most time.Duration, running *sync.WaitGroup) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if sleep(ctx, offset) != nil {
		return
	}
	tick := time.NewTicker(op.every)
	defer tick.Stop()
	for {
		running.Go(func() { op.run(s, context.WithoutCancel(ctx)) })
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// do sends a request and records its outcome. Any answer but the wanted ones is a failure: the clients stay within
// their limits.
func (s *goodClient) do(ctx context.Context, kind string, r call, want ...int) (answer, bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	a, err := s.send(ctx, r)
	o := outcome{kind: kind, took: time.Since(began), failure: reason(a, err)}
	for _, status := range want {
		if err == nil && a.status == status {
			o.failure = ""
		}
	}
	s.record(o)
	return a, o.failure == ""
}

func read(kind, path string) func(*goodClient, context.Context) {
	return func(s *goodClient, ctx context.Context) {
		s.do(ctx, kind, call{token: s.session, method: http.MethodGet, path: path}, http.StatusOK)
	}
}

// poll reads an agent with its entity tag.
func (s *goodClient) poll(ctx context.Context) {
	r := call{token: s.key, method: http.MethodGet, path: agentPath(s.running)}
	if etag := s.etag.Load(); etag != nil {
		r.etag = *etag
	}
	if a, ok := s.do(ctx, "poll", r, http.StatusOK, http.StatusNotModified); ok && a.etag != "" {
		s.etag.Store(&a.etag)
	}
}

func (s *goodClient) get(ctx context.Context) {
	s.do(ctx, "get", call{token: s.session, method: http.MethodGet, path: agentPath(s.running)}, http.StatusOK)
}

func (s *goodClient) metrics(ctx context.Context) {
	s.do(ctx, "metrics", call{
		token: s.key, method: http.MethodGet, path: agentPath(s.running) + "/metrics",
	}, http.StatusOK)
}

func (s *goodClient) listSecrets(ctx context.Context) {
	s.do(ctx, "secrets", call{
		token: s.key, method: http.MethodGet, path: agentPath(s.stopped) + "/secrets",
	}, http.StatusOK)
}

func (s *goodClient) rename(ctx context.Context) {
	body := fmt.Sprintf(`{"name": "load %d"}`, s.count.Add(1))
	s.do(ctx, "patch", call{
		token: s.key, method: http.MethodPatch, path: agentPath(s.running), body: body,
	}, http.StatusOK)
}

// putSecret writes one of ten secrets of the agent that is stopped, because a write restarts a running one.
func (s *goodClient) putSecret(ctx context.Context) {
	n := s.count.Add(1)
	body := fmt.Sprintf(`{"secrets": {"KEY_%d": "value %d"}}`, n%10, n)
	r := call{token: s.key, method: http.MethodPut, path: agentPath(s.stopped) + "/secrets", body: body}
	s.do(ctx, "put secret", r, http.StatusAccepted)
}

// startAndDelete creates an agent, waits until it runs and deletes it.
func (s *goodClient) startAndDelete(ctx context.Context) {
	began := time.Now()
	a, ok := s.do(ctx, "create", call{
		token: s.key, method: http.MethodPost, path: "/api/v1/agents", body: newAgent,
	}, http.StatusCreated)
	if !ok {
		return
	}
	id, _ := view(a)
	waiting, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	o := outcome{kind: start}
	if err := s.awaitRunning(waiting, s.tenant, id); err != nil {
		o.failure = err.Error()
		if waiting.Err() != nil {
			o.failure = "timeout"
		}
	}
	o.took = time.Since(began)
	s.record(o)
	_, ok = s.do(ctx, "delete", call{token: s.key, method: http.MethodDelete, path: agentPath(id)}, http.StatusAccepted)
	if !ok {
		s.leave(id)
	}
}

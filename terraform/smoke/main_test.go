package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// deployment answers as the API does, or as it must not.
type deployment struct {
	mu     sync.Mutex
	url    string
	broken string // what is wrong
	looks  int    // at the agent
	gone   bool
	agents string // those that there are before the test
	calls  []string
}

func (d *deployment) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	call := req.Method + " " + req.URL.Path
	d.calls = append(d.calls, call)
	answers := map[string]int{
		"GET /health/ready": 200, "GET /api/v1/me": 200, "POST /api/v1/agents": 201, "GET /api/v1/agents/a": 200,
		"DELETE /api/v1/agents/a": 202, "GET /dashboard/": 401, "GET /api/v1/agents": 200,
		"DELETE /api/v1/agents/old": 202,
	}
	status, agent := answers[call], "provisioning"
	if d.looks++; d.looks > 5 {
		agent = "running"
	}
	switch {
	case call == "GET /dashboard/" && req.Header.Get("Authorization") == "" && d.broken != call:
	case d.broken == call, call != "GET /health/ready" && req.Header.Get("Authorization") != "Bearer key":
		status = 500
	case call == "DELETE /api/v1/agents/a":
		d.gone = true
	case call == "GET /api/v1/agents/a" && d.gone:
		status = 404
	case d.broken == "provisioning":
		agent = "error"
	}
	w.WriteHeader(status)
	switch {
	case status == 404:
		fmt.Fprint(w, `{"code": "agent_not_found", "detail": "Agent not found.", "status": 404}`)
		return
	case call == "GET /api/v1/agents":
		fmt.Fprintf(w, "[%s]", d.agents)
		return
	}
	fmt.Fprintf(w, `{"id": "a", "status": %q, "error_message": "no room", "dashboard_url": "%s/dashboard/"}`, agent, d.url)
}

// TestSmoke_FindsBrokenDeployments breaks one call at a time. The smoke test must report it and delete its agent.
func TestSmoke_FindsBrokenDeployments(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ broken, key, want, last string }{
		"all is well":        {broken: "", key: "key", want: "", last: "GET /api/v1/agents/a"},
		"health only":        {broken: "", key: "none", want: "", last: "GET /health/ready"},
		"unhealthy":          {broken: "GET /health/ready", key: "key", want: "healthy", last: "GET /health/ready"},
		"another key":        {broken: "", key: "other", want: "API key", last: "GET /api/v1/me"},
		"creation fails":     {broken: "POST /api/v1/agents", key: "key", want: "create", last: "POST /api/v1/agents"},
		"agent does not run": {broken: "provisioning", key: "key", want: "no room", last: "GET /api/v1/agents/a"},
		"agent does not answer": {
			broken: "GET /dashboard/", key: "key", want: "hostname", last: "GET /api/v1/agents/a",
		},
		"deletion fails": {
			broken: "DELETE /api/v1/agents/a", key: "key", want: "delete",
			last: "DELETE /api/v1/agents/a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &deployment{broken: row.broken}
			server := httptest.NewServer(d)
			defer server.Close()
			d.url = server.URL
			timeout := 10 * time.Second
			if row.broken == "GET /health/ready" || row.broken == "GET /dashboard/" { // polled until the timeout
				timeout = 200 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			err := smoke{
				url: server.URL, key: row.key, out: &bytes.Buffer{}, pause: time.Millisecond, client: server.Client(),
			}.run(ctx)
			if row.want == "" && err != nil {
				t.Errorf("smoke test failed: %v", err)
			}
			if row.want != "" && !strings.Contains(fmt.Sprint(err), row.want) {
				t.Errorf("error = %v, want one with %q", err, row.want)
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			if last := d.calls[len(d.calls)-1]; last != row.last {
				t.Errorf("last call = %s, want %s", last, row.last)
			}
			if slices.Contains(d.calls, "POST /api/v1/agents") && row.broken != "POST /api/v1/agents" &&
				!slices.Contains(d.calls, "DELETE /api/v1/agents/a") {
				t.Error("the agent was not deleted")
			}
		})
	}
}

// TestSmoke_DeletesTheAgentsOfTestsThatDied holds that a test which died leaves room for the next one, and that agents
// of others, and of a test that runs, stay.
func TestSmoke_DeletesTheAgentsOfTestsThatDied(t *testing.T) {
	t.Parallel()
	at := func(age time.Duration) string { return time.Now().Add(-age).UTC().Format(time.RFC3339) }
	var agents []string
	for _, a := range []struct{ id, config, createdAt string }{
		{id: "young", config: `{"smoke_test": true}`, createdAt: at(stepTimeout - time.Minute)},
		{id: "other", config: `{"smoke_test": "mine"}`, createdAt: at(stepTimeout + time.Minute)},
		{id: "none", config: `{}`, createdAt: at(stepTimeout + time.Minute)},
		{id: "old", config: `{"smoke_test": true}`, createdAt: at(stepTimeout + time.Minute)},
	} {
		agents = append(agents, fmt.Sprintf(`{"id": %q, "name": "Smoke test", "status": "running", "config": %s, "created_at": %q}`,
			a.id, a.config, a.createdAt))
	}
	d := &deployment{agents: strings.Join(agents, ", ")}
	server := httptest.NewServer(d)
	defer server.Close()
	d.url = server.URL
	s := smoke{url: server.URL, key: "key", out: &bytes.Buffer{}, pause: time.Millisecond, client: server.Client()}
	if err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var deleted []string
	for _, call := range d.calls {
		if id, ok := strings.CutPrefix(call, "DELETE /api/v1/agents/"); ok {
			deleted = append(deleted, id)
		}
	}
	if want := []string{"old", "a"}; !slices.Equal(deleted, want) {
		t.Errorf("deleted agents = %v, want %v", deleted, want)
	}
	if list, create := slices.Index(d.calls, "DELETE /api/v1/agents/old"),
		slices.Index(d.calls, "POST /api/v1/agents"); list > create {
		t.Errorf("calls = %v, want the deletion before the creation", d.calls)
	}
}

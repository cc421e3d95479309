package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/client"
)

// stream is one answer of a script: its status, and the lines 1 to last that it adds. Each stream continues after
// Last-Event-ID.
type stream struct {
	// status is that of an error with a code; 0 is a stream.
	status int
	code   string
	// last is the last line that is sent.
	last int
	// bare lines have no id.
	bare bool
	// then says how the stream goes on after it: end, break, hang.
	then string
}

// log is a server that answers with a script of streams.
type log struct {
	script []stream
	// status is the agent's.
	status client.AgentStatus
	// opened are the times of the requests, after the first one.
	opened []time.Duration
	asked  []string
	begun  time.Time
}

// ServeHTTP implements http.Handler.
func (l *log) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/logs") {
		_, _ = fmt.Fprintf(w, `{"id": "a", "status": %q}`, l.status)
		return
	}
	if l.begun.IsZero() {
		l.begun = time.Now()
	}
	l.opened = append(l.opened, time.Since(l.begun))
	l.asked = append(l.asked, r.Header.Get("Accept")+" "+r.Header.Get("Last-Event-ID"))
	if len(l.script) == 0 {
		l.script = []stream{{status: http.StatusNotFound, code: "agent_not_found"}}
	}
	s := l.script[0]
	l.script = l.script[1:]
	if s.status != 0 {
		w.WriteHeader(s.status)
		_, _ = fmt.Fprintf(w, `{"detail": "d", "code": %q}`, s.code)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if s.then == "mute" {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return
	}
	first := 0
	_, _ = fmt.Sscanf(r.Header.Get("Last-Event-ID"), "id-%d", &first)
	_, _ = io.WriteString(w, "retry: 2000\n\n: a comment\n\n")
	for i := first + 1; i <= s.last; i++ {
		if !s.bare {
			_, _ = fmt.Fprintf(w, "id: id-%d\n", i)
		}
		_, _ = fmt.Fprintf(w, "data: {\"message\": \"%d\",\ndata: \"stream\": \"combined\"}\n\n", i)
	}
	_ = http.NewResponseController(w).Flush()
	switch s.then {
	case "break":
		_, _ = fmt.Fprintf(w, "id: id-%d\ndata: {\"message\"", s.last+1)
		panic(http.ErrAbortHandler)
	case "hang":
		<-r.Context().Done()
	}
}

func TestFollowAgentLogs_ContinuesAndEnds(t *testing.T) {
	t.Parallel()
	gone := stream{status: http.StatusConflict, code: "agent_not_running"}
	down := stream{status: http.StatusServiceUnavailable, code: "cluster_unavailable"}
	for name, c := range map[string]struct {
		script   []stream
		status   client.AgentStatus
		want     string
		wantCode string
		// wantStatus is that of an error without a code.
		wantStatus int
		wantAt     time.Duration // of the last request; 0 is not checked
	}{
		"the agent was deleted": {script: []stream{{last: 2}}, want: "1 2", wantAt: 2 * time.Second},
		"the agent was stopped": {
			script: []stream{{last: 2}, gone}, status: client.AgentStatusStopped, want: "1 2", wantAt: 2 * time.Second,
		},
		"the agent restarts": {
			script: []stream{{last: 2}, gone, gone, {last: 3}}, status: client.AgentStatusRunning, want: "1 2 3",
		},
		"the agent is in error": {
			script: []stream{{last: 2}, gone}, status: client.AgentStatusError, want: "1 2",
		},
		"the agent is being deleted": {
			script: []stream{{last: 2}, gone}, status: client.AgentStatusDeleting, want: "1 2",
		},
		"a running agent waits for a node": {
			script: append(append([]stream{{last: 1}}, slices.Repeat([]stream{gone}, 13)...), stream{last: 2}),
			status: client.AgentStatusRunning, want: "1 2",
		},
		"a running agent stays without a pod": {
			script: append([]stream{{last: 1}}, slices.Repeat([]stream{gone}, 16)...), want: "1",
			status: client.AgentStatusRunning, wantCode: "agent_not_running",
		},
		"a provisioning agent stays without a pod": {
			script: append([]stream{{last: 1}}, slices.Repeat([]stream{gone}, 16)...), want: "1",
			status: client.AgentStatusProvisioning, wantCode: "agent_not_running",
		},
		"an outage while the agent waits for a node": {
			script: slices.Concat([]stream{{last: 1}}, slices.Repeat([]stream{gone}, 10),
				slices.Repeat([]stream{down}, 6), []stream{{last: 2}}),
			status: client.AgentStatusRunning, want: "1 2",
		},
		"lost connections": {
			script: []stream{{last: 2, then: "break"}, {last: 2, then: "break"}, {last: 4}}, want: "1 2 3 4",
		},
		"lost before the first line": {script: []stream{{then: "break"}, {last: 2}}, want: "1 2"},
		"lines without ids, which are repeated": {
			script: []stream{{last: 2}, {last: 3, bare: true, then: "break"}, {last: 4}}, want: "1 2 3 3 4",
		},
		"a dead connection": {
			script: []stream{{last: 1, then: "hang"}, {last: 3}}, want: "1 2 3", wantAt: 64 * time.Second,
		},
		"a connection without a first byte": {
			script: []stream{{last: 1}, {then: "mute"}, {last: 2}}, want: "1 2", wantAt: 66 * time.Second,
		},
		"an outage": {
			script: []stream{{last: 1}, down, down, down, down, down, down, {last: 2}}, want: "1 2",
		},
		"not running at the first call": {script: []stream{gone}, wantCode: "agent_not_running"},
		"a page of a proxy": {
			script: []stream{{last: 1}, {status: http.StatusNotFound}}, want: "1", wantStatus: http.StatusNotFound,
		},
		"access was withdrawn": {
			script: []stream{{last: 1}, {status: http.StatusForbidden, code: "role_required"}}, want: "1",
			wantCode: "role_required",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := &log{script: c.script, status: c.status}
				got, err := follow(t.Context(), serve(t, l))
				if got != c.want {
					t.Errorf("lines %q, want %q", got, c.want)
				}
				if e := client.AsError(err); (err != nil) != (c.wantCode != "" || c.wantStatus != 0) ||
					e != nil && (e.Code != c.wantCode || c.wantStatus != 0 && e.Status != c.wantStatus) {
					t.Errorf("ended with %v, want the code %q, or the status %d", err, c.wantCode, c.wantStatus)
				}
				if at := l.opened[len(l.opened)-1]; c.wantAt != 0 && at != c.wantAt {
					t.Errorf("the last request came after %s, want %s", at, c.wantAt)
				}
				if len(l.script) > 0 {
					t.Errorf("%d streams were not asked for: %v", len(l.script), l.script)
				}
				if !strings.HasPrefix(l.asked[0], "text/event-stream") {
					t.Errorf("the request accepts %q, want an event stream", l.asked[0])
				}
			})
		})
	}
}

// follow returns the messages of a log and the error that ended it.
func follow(ctx context.Context, c *client.Client) (messages string, err error) {
	var all []string
	for line, failed := range c.FollowAgentLogs(ctx, "a", client.GetAgentLogsParams{Tail: 10}) {
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		all = append(all, line.Message)
	}
	return strings.Join(all, " "), err
}

func TestFollowAgentLogs_EndsWithItsContextAndItsCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &log{script: []stream{{last: 2, then: "hang"}, {last: 2, then: "hang"}}}
		c := serve(t, l)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got, err := follow(ctx, c); got != "1 2" || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("lines %q, %v; want 1 2 and the context's error", got, err)
		}
		for line, err := range c.FollowAgentLogs(t.Context(), "a", client.GetAgentLogsParams{}) {
			if err != nil || line.Message != "1" {
				t.Errorf("the first line is %q, %v; want 1", line.Message, err)
			}
			break
		}
		if len(l.opened) != 2 {
			t.Errorf("%d streams were opened, want one for each iteration", len(l.opened))
		}
	})
}

func TestFollowAgentLogs_GivesUpAfterALongOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &log{script: []stream{{last: 1}}}
		for range 100 {
			l.script = append(l.script, stream{status: http.StatusServiceUnavailable, code: "cluster_unavailable"})
		}
		_, err := follow(t.Context(), serve(t, l))
		e := client.AsError(err)
		if at := l.opened[len(l.opened)-1]; e == nil || e.Status != 503 || at < 2*time.Minute || at > 4*time.Minute {
			t.Errorf("ended with %v after %s, want 503 after more than two minutes", err, at)
		}
	})
}

package client_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/client"
)

const agentJSON = `{"id": "a", "status": "hibernating", "config": {"own": {"x": 1}}, "of_a_later_version": true}`

// answer is one step of a schedule: how the server answers one request. The zero value is a success.
type answer struct {
	status     int
	retryAfter string        // "date" is a date in 10 seconds
	ahead      time.Duration // of the server's clock
	location   string
	next       string // the cursor of the next page
	body       string
	// after is when the answer comes.
	after time.Duration
	// fault is what goes wrong: lost, broken off, silent, half, endless. gzip is none.
	fault string
}

// schedule is a server that answers requests one after the other. The last answer is repeated.
type schedule struct {
	answers []answer

	mu       sync.Mutex
	requests []*http.Request
}

// ServeHTTP implements http.Handler.
func (s *schedule) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	s.mu.Lock()
	s.requests = append(s.requests, r)
	a := s.answers[min(len(s.requests), len(s.answers))-1]
	s.mu.Unlock()
	if a.body == "" && a.status < 300 {
		a.body = agentJSON
	}
	now := time.Now().Add(a.ahead)
	if a.retryAfter == "date" {
		a.retryAfter = now.Add(10 * time.Second).UTC().Format(http.TimeFormat)
	}
	w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
	for name, value := range map[string]string{
		"Retry-After": a.retryAfter, "Location": a.location, "X-Next-Cursor": a.next,
	} {
		if value != "" {
			w.Header().Set(name, value)
		}
	}
	select {
	case <-time.After(a.after):
	case <-r.Context().Done():
		return
	}
	switch a.fault {
	case "lost":
		panic(http.ErrAbortHandler)
	case "silent":
		<-r.Context().Done()
		return
	case "broken off":
		w.Header().Set("Content-Length", "1000")
	case "gzip":
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.WriteHeader(max(a.status, http.StatusOK))
	switch a.fault {
	case "gzip":
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, a.body)
		_ = z.Close()
	case "endless":
		_, _ = io.CopyN(w, zeros{}, 65<<20)
	default:
		_, _ = io.WriteString(w, a.body)
	}
	if a.fault == "half" {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	if a.fault == "broken off" {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// problem is the body of an error.
func problem(code string) string { return fmt.Sprintf(`{"detail": "It failed.", "code": %q}`, code) }

// TestSend_Schedules creates an agent while the network and the API fail.
func TestSend_Schedules(t *testing.T) {
	t.Parallel()
	const page = "<html>Bad Gateway</html>"
	busy := answer{status: 503, body: problem("cluster_unavailable")}
	late := func(after string) answer { return answer{status: 503, retryAfter: after, body: problem("busy")} }
	for name, c := range map[string]struct {
		given     []answer
		attempts  int
		timeout   time.Duration
		wantCalls int
		wantError string // a part; empty is a success
		wantTook  time.Duration
	}{
		"success":                {given: []answer{{}}, wantCalls: 1},
		"gzip":                   {given: []answer{{fault: "gzip"}}, wantCalls: 1},
		"lost before the answer": {given: []answer{{fault: "lost"}, {}}, wantCalls: 2},
		"lost in the answer":     {given: []answer{{fault: "broken off"}, {}}, wantCalls: 2},
		"lost in an error":       {given: []answer{{status: 503, fault: "broken off"}, {}}, wantCalls: 2},
		"silence":                {given: []answer{{fault: "silent"}, {}}, wantCalls: 2, wantTook: 2 * time.Minute},
		"lost always":            {given: []answer{{fault: "lost"}}, wantCalls: 5, wantError: "EOF"},
		"busy, then not":         {given: []answer{busy, busy, {}}, wantCalls: 3},
		"busy always":            {given: []answer{busy}, wantCalls: 5, wantError: "503 cluster_unavailable"},
		"one attempt":            {given: []answer{busy}, attempts: 1, wantCalls: 1, wantError: "It failed."},
		"Retry-After":            {given: []answer{late("4"), {}}, wantCalls: 2, wantTook: 4 * time.Second},
		"Retry-After as a date":  {given: []answer{late("date"), {}}, wantCalls: 2, wantTook: 9 * time.Second},
		"Retry-After as a date of a clock that is ahead": {
			given:     []answer{{status: 503, retryAfter: "date", ahead: time.Hour, body: problem("busy")}, {}},
			wantCalls: 2, wantTook: 9 * time.Second,
		},
		"Retry-After in the past": {given: []answer{late("Fri, 01 Jan 1999 00:00:00 GMT"), {}}, wantCalls: 2},
		"negative Retry-After":    {given: []answer{late("-5"), {}}, wantCalls: 2},
		"long Retry-After":        {given: []answer{late("61")}, wantCalls: 1, wantError: "503 busy"},
		"huge Retry-After":        {given: []answer{late("99999999999999999999")}, wantCalls: 1, wantError: "503 busy"},
		"too many requests": {
			given:     []answer{{status: 429, retryAfter: "2"}, {}},
			wantCalls: 2, wantTook: 2 * time.Second,
		},
		"slow upload": {
			given: []answer{{status: 408, body: problem("request_timeout")}, {}}, wantCalls: 2,
		},
		"page of a load balancer, 502": {given: []answer{{status: 502, body: page}, {}}, wantCalls: 2},
		"page of a load balancer, 504": {
			given: []answer{{status: 504, body: page}}, attempts: 1,
			wantCalls: 1, wantError: "Gateway Timeout",
		},
		"first call still runs": {
			given:     []answer{{status: 409, retryAfter: "1", body: problem("idempotency_in_progress")}, {}},
			wantCalls: 2, wantTook: time.Second,
		},
		"conflict": {
			given:     []answer{{status: 409, body: problem("agent_limit")}},
			wantCalls: 1, wantError: "409 agent_limit",
		},
		"defect": {
			given:     []answer{{status: 500, body: problem("internal_error")}},
			wantCalls: 1, wantError: "500 internal_error",
		},
		"refused token": {
			given:     []answer{{status: 401, body: problem("invalid_token")}},
			wantCalls: 1, wantError: "401 invalid_token",
		},
		"redirect": {
			given:     []answer{{status: 302, location: "https://elsewhere.example"}},
			wantCalls: 1, wantError: "redirects to https://elsewhere.example",
		},
		"no JSON":    {given: []answer{{body: page}}, wantCalls: 1, wantError: "not the expected JSON"},
		"other JSON": {given: []answer{{body: `[]`}}, wantCalls: 1, wantError: "not the expected JSON"},
		"nothing":    {given: []answer{{status: 204}}, wantCalls: 1, wantError: "not the expected JSON"},
		"endless":    {given: []answer{{fault: "endless"}}, wantCalls: 1, wantError: "longer than 64 MiB"},
		"unknown error": {
			given:     []answer{{status: 418, body: `{"oops": 1}`}},
			wantCalls: 1, wantError: "I'm a teapot. (418)",
		},
		"error as a list": {
			given:     []answer{{status: 400, body: `[1]`}},
			wantCalls: 1, wantError: "Bad Request. (400)",
		},
		"error of no type": {
			given: []answer{{status: 422, body: `{"detail": [5], "code": "c"}`}}, wantCalls: 1, wantError: "(422 c)",
		},
		"unknown status": {
			given:     []answer{{status: 599, body: "null"}},
			wantCalls: 1, wantError: "unknown status. (599)",
		},
		"time runs out": {
			given: []answer{late("30")}, timeout: time.Second,
			wantCalls: 1, wantError: "deadline exceeded", wantTook: time.Second,
		},
		"time ran out": {given: []answer{{}}, timeout: -time.Second, wantCalls: 0, wantError: "deadline exceeded"},
		"silence until then": {
			given: []answer{{fault: "silent"}}, timeout: time.Second,
			wantCalls: 1, wantError: "deadline exceeded", wantTook: time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &schedule{answers: c.given}
				var options []client.Option
				if c.attempts > 0 {
					options = append(options, client.WithAttempts(c.attempts))
				}
				ctx := t.Context()
				if c.timeout != 0 {
					limited, cancel := context.WithTimeout(ctx, c.timeout)
					defer cancel()
					ctx = limited
				}
				began := time.Now()
				a, err := serve(t, s, options...).CreateAgent(ctx, client.CreateAgentRequest{Name: "a"})
				more := c.wantTook/4 + 4*time.Second // the jitter
				if c.wantCalls <= 1 {
					more = 0
				}
				if took := time.Since(began); took < c.wantTook || took > c.wantTook+more {
					t.Errorf("took %s, want %s and at most %s more", took, c.wantTook, more)
				}
				s.check(t, c.wantCalls)
				if c.wantError != "" {
					if err == nil || !strings.Contains(err.Error(), c.wantError) {
						t.Errorf("error = %v, want one with %q", err, c.wantError)
					}
				} else if err != nil || a.Status != "hibernating" || a.Config.AdditionalProperties["own"] == nil {
					t.Errorf("got %+v, %v; want the agent with its unknown status and keys", a, err)
				}
			})
		})
	}
}

// TestSend_TakesNoPageForSuccess makes calls whose answers have no body. A page of a proxy or of a captive portal must
// not look like a key that is revoked or a file that is written.
func TestSend_TakesNoPageForSuccess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, &schedule{answers: []answer{{body: "<html>Sign in to the network</html>"}}})
		ctx := t.Context()
		for what, err := range map[string]error{
			"RevokeAPIKey":      c.RevokeAPIKey(ctx, "k", client.RevokeAPIKeyParams{}),
			"DeleteWebhook":     c.DeleteWebhook(ctx, "w"),
			"DeleteAgentFiles":  c.DeleteAgentFiles(ctx, "a", "/data/x"),
			"PutAgentFile":      c.PutAgentFile(ctx, "a", "/data/x", []byte("x")),
			"PutAgentDirectory": c.PutAgentDirectory(ctx, "a", "/data", []byte("x")),
		} {
			if err == nil || !strings.Contains(err.Error(), "not the expected JSON") {
				t.Errorf("%s: error = %v, want one that says that the answer is not JSON", what, err)
			}
		}
	})
}

// check checks that all requests were the same, with one key.
func (s *schedule) check(t *testing.T, calls int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) != calls {
		t.Errorf("%d requests, want %d", len(s.requests), calls)
	}
	for _, r := range s.requests {
		if key := r.Header.Get("Idempotency-Key"); len(key) < 20 || key != s.requests[0].Header.Get("Idempotency-Key") {
			t.Errorf("Idempotency-Key = %q, want one long key for all repeats", key)
		}
		if r.Header.Get("Authorization") != "Bearer token" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("the request's header is %v", r.Header)
		}
	}
}

func TestSend_KeepsBothErrorsWhenTimeRunsOut(t *testing.T) {
	t.Parallel()
	busy := answer{status: 503, body: problem("busy")}
	muchLater := busy
	muchLater.retryAfter = "30"
	for when, answers := range map[string][]answer{
		"before a repeat": {muchLater}, "during a repeat": {busy, {fault: "silent"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := serve(t, &schedule{answers: answers})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := c.GetMe(ctx)
			if e := client.AsError(err); e == nil || e.Code != "busy" || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("time runs out %s: error = %v, want the API's error and the context's", when, err)
			}
		})
	}
}

// TestSend_ShowsThatTheConnectionFailed: programs find out with *url.Error, whenever it fails.
func TestSend_ShowsThatTheConnectionFailed(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]string{
		"lost":       `Get "http://localhost/api/v1/me": EOF`,
		"silent":     `Get "http://localhost/api/v1/me": no answer within 2m0s`,
		"broken off": `GET "http://localhost/api/v1/me": the answer broke off: unexpected EOF`,
	} {
		synctest.Test(t, func(t *testing.T) {
			c := serve(t, &schedule{answers: []answer{{fault: fault}}}, client.WithAttempts(1))
			_, err := c.GetMe(t.Context())
			if failed, ok := errors.AsType[*url.Error](err); !ok || failed.Error() != want {
				t.Errorf("%s: error = %v, want %s", fault, err, want)
			}
		})
	}
}

// TestSend_UsesOneConnection makes calls of every kind. Their answers are read to the end and closed, so that each call
// finds the connection of the one before it.
func TestSend_UsesOneConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &schedule{answers: []answer{
			{},
			{status: 404, body: problem("agent_not_found")},
			{status: 202},
			{status: 204},
			{body: "[]"},
			{status: 500, body: problem("internal_error")},
			{},
			{},
		}}
		c, server := serveAs(t, s, client.StaticToken("token"))
		ctx := t.Context()
		_, _ = c.GetAgent(ctx, "a", client.GetAgentParams{})
		_, _ = c.GetAgent(ctx, "a", client.GetAgentParams{})
		_, _ = c.DeleteAgent(ctx, "a")
		_ = c.RevokeAPIKey(ctx, "k", client.RevokeAPIKeyParams{})
		_, _ = c.ListPlans(ctx)
		_, _ = c.GetMe(ctx)
		_ = collect(c.ExportAuditLog(ctx, client.ExportAuditLogParams{}))
		_, _ = c.GetMe(ctx)
		if n := server.Connections(); n != 1 || len(s.requests) != 8 {
			t.Errorf("%d requests over %d connections, want 8 over one", len(s.requests), n)
		}
	})
}

// collect returns the last error of an iteration.
func collect[T any](all iter.Seq2[T, error]) (last error) {
	for _, err := range all {
		last = err
	}
	return last
}

// TestVerifyAuditLog_WaitsForTheWholeLog answers as late as the API may. A repeat would read the log once more.
func TestVerifyAuditLog_WaitsForTheWholeLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &schedule{answers: []answer{{after: 10 * time.Minute, body: `{"verified": true}`}}}
		out, err := serve(t, s).VerifyAuditLog(t.Context(), client.VerifyAuditLogParams{})
		if err != nil || !out.Verified {
			t.Errorf("VerifyAuditLog = %+v, %v, want a verified log", out, err)
		}
		if len(s.requests) != 1 {
			t.Errorf("%d requests, want 1", len(s.requests))
		}
	})
}

// TestExec_WaitsForItsCommand runs commands for longer than other calls are waited for: a repeat would not get their
// output.
func TestExec_WaitsForItsCommand(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		seconds   *int64
		after     time.Duration
		wantCalls int
	}{
		"as long as it may": {seconds: new(int64(300)), after: 300 * time.Second, wantCalls: 1},
		"by default":        {after: 30 * time.Second, wantCalls: 1},
		"too long":          {seconds: new(int64(60)), after: 181 * time.Second, wantCalls: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &schedule{answers: []answer{{after: c.after, body: `{"exit_code": 0}`}, {body: `{"exit_code": 0}`}}}
				out, err := serve(t, s).ExecInAgent(t.Context(), "a",
					client.ExecInAgentRequest{Command: []string{"sleep"}, TimeoutSeconds: c.seconds})
				if err != nil || *out.ExitCode != 0 {
					t.Errorf("ExecInAgent = %v, %v, want the command's end", out, err)
				}
				s.check(t, c.wantCalls)
			})
		})
	}
}

// TestStreams_EndAfterALongSilence reads answers whose rest never arrives, through a proxy that is alive. The reader
// itself may take its time.
func TestStreams_EndAfterALongSilence(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(ctx context.Context, c *client.Client) error{
		"lines": func(ctx context.Context, c *client.Client) error {
			for _, err := range c.GetAgentLogs(ctx, "a", client.GetAgentLogsParams{}) {
				if err != nil {
					return err
				}
				<-time.After(time.Hour)
			}
			return nil
		},
		"a file": func(ctx context.Context, c *client.Client) error {
			file, err := c.GetAgentFile(ctx, "a", "/data/x")
			if err == nil {
				_, err = io.Copy(io.Discard, file)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
				defer cancel()
				s := &schedule{answers: []answer{{body: "{}\n", fault: "half"}}}
				err := read(ctx, serve(t, s))
				if err == nil || !strings.Contains(err.Error(), "nothing arrived for 11m0s") || ctx.Err() != nil {
					t.Errorf("the answer ends with %v (%v), want the time that it was silent", err, ctx.Err())
				}
			})
		})
	}
}

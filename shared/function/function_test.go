package function_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
)

// serveAccessRoutes serves one echo route for each kind of access. Their handler returns err, or panics for the text
// "panic".
func serveAccessRoutes(err error) http.Handler {
	handle := function.Handle(func(_ context.Context, in echoInput) (echo, error) {
		if in.Body.Text == "panic" {
			panic("the secret value")
		}
		return echo{in.Body.Text}, err
	})
	var routes []function.Route
	for access, path := range map[function.Access]string{
		function.Admin: "/api/v1/admin", function.Member: "/api/v1/agents/member", function.User: "/api/v1/user",
		function.Public: "/api/v1/public",
	} {
		routes = append(routes, function.Route{
			Name: string(access), Method: http.MethodPost, Path: path, Access: access, Status: http.StatusOK,
			BodyLimit: 1000, Handle: handle,
		})
	}
	return serveRoutes(function.Guard{}, routes...)
}

// postJSON makes a POST request with a raw Authorization header.
func postJSON(path, authorization, body string) *http.Request {
	req := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	req.Header.Set("Content-Type", "application/json")
	return req
}

// TestRoute_ChecksAccess tries every kind of access with every kind of caller. The body is never valid, so 422 means
// that the route accepted the caller.
func TestRoute_ChecksAccess(t *testing.T) {
	t.Parallel()
	const accepted = 422
	type statuses struct{ admin, member, user, public int } // by the access of the route
	wantStatuses := map[string]statuses{                    // by Authorization header
		"":                       {admin: 401, member: 401, user: 401, public: accepted},
		"Bearer":                 {admin: 401, member: 401, user: 401, public: accepted},
		"Basic admin":            {admin: 401, member: 401, user: 401, public: accepted},
		"Bearer garbage":         {admin: 401, member: 401, user: 401, public: accepted},
		"Bearer a b":             {admin: 401, member: 401, user: 401, public: accepted},
		"Bearer no-organization": {admin: 403, member: 403, user: accepted, public: accepted},
		"Bearer member":          {admin: 403, member: accepted, user: accepted, public: accepted},
		"bearer admin":           {admin: accepted, member: accepted, user: accepted, public: accepted},
		"Bearer outage":          {admin: 503, member: 503, user: 503, public: accepted},
	}
	h := serveAccessRoutes(nil)
	for authorization, want := range wantStatuses {
		for path, status := range map[string]int{
			"/api/v1/admin": want.admin, "/api/v1/agents/member": want.member, "/api/v1/user": want.user,
			"/api/v1/public": want.public,
		} {
			r := send(t, h, postJSON(path, authorization, `{}`))
			if r.status != status {
				t.Errorf("%q on %s: status = %d, want %d", authorization, path, r.status, status)
			}
			if got := r.header.Get("WWW-Authenticate"); (got == "Bearer") != (r.status == 401) {
				t.Errorf("%q on %s: status %d with WWW-Authenticate %q", authorization, path, r.status, got)
			}
			if got := r.header.Get("Retry-After"); (got != "") != (r.status == 503) {
				t.Errorf("%q on %s: status %d with Retry-After %q", authorization, path, r.status, got)
			}
		}
	}
}

// unreadableBody fails the test if it is read.
type unreadableBody struct{ t *testing.T }

func (b unreadableBody) Read([]byte) (int, error) {
	b.t.Error("the route read the body before it refused the call")
	return 0, io.EOF
}

func TestRoute_RefusesBeforeReadingTheBody(t *testing.T) {
	t.Parallel()
	for authorization, want := range map[string]int{"": 401, "Bearer garbage": 401, "Bearer member": 403} {
		req := httptest.NewRequest(http.MethodPost, "/api/v1/admin", unreadableBody{t})
		req.Header.Set("Authorization", authorization)
		if r := send(t, serveAccessRoutes(nil), req); r.status != want {
			t.Errorf("%q: status = %d, want %d", authorization, r.status, want)
		}
	}
}

func TestMux_AnswersWithStatusAndCode(t *testing.T) {
	t.Parallel()
	const admin = "Bearer admin"
	valid := func() *http.Request { return postJSON("/api/v1/admin", admin, validBody) }
	plainText := valid()
	plainText.Header.Set("Content-Type", "text/plain")
	tooLarge := postJSON("/api/v1/admin", admin, `{"text": "`+strings.Repeat("x", 1000)+`"}`)
	secretErr := errors.New("the secret value")
	for name, c := range map[string]struct {
		req        *http.Request
		handlerErr error
		wantStatus int
		wantCode   string
	}{
		"valid call":                {req: valid(), wantStatus: 200},
		"agent path without prefix": {req: postJSON("/agents/member", admin, validBody), wantStatus: 200},
		"other path without prefix": {req: postJSON("/user", admin, validBody), wantStatus: 404, wantCode: "not_found"},
		"unknown path":              {req: postJSON("/api/v1/none", "", `{}`), wantStatus: 404, wantCode: "not_found"},
		"empty path segments": {
			req: postJSON("//api/v1//admin", admin, validBody), wantStatus: 404,
			wantCode: "not_found",
		},
		"dotted path segments": {
			req: postJSON("/api/v1/x/../admin", admin, validBody), wantStatus: 404, wantCode: "not_found",
		},
		"trailing slash": {req: postJSON("/api/v1/admin/", admin, validBody), wantStatus: 404, wantCode: "not_found"},
		"wrong method": {
			req: httptest.NewRequest(http.MethodPut, "/api/v1/admin", nil), wantStatus: 405,
			wantCode: "method_not_allowed",
		},
		"body is not JSON": {req: plainText, wantStatus: 415, wantCode: "unsupported_media_type"},
		"body too large":   {req: tooLarge, wantStatus: 413, wantCode: "body_too_large"},
		"handler panics": {
			req: postJSON("/api/v1/admin", admin, `{"text": "panic"}`), wantStatus: 500, wantCode: "internal_error",
		},
		"unknown error": {req: valid(), handlerErr: secretErr, wantStatus: 500, wantCode: "internal_error"},
		"wrapped fault": {
			req:        valid(),
			handlerErr: fmt.Errorf("while: %w", fault.New(fault.Conflict, "agent_deleting", "No.")),
			wantStatus: 409, wantCode: "agent_deleting",
		},
		"expired context": {req: valid(), handlerErr: context.DeadlineExceeded, wantStatus: 503, wantCode: "timeout"},
		"fault with cause": {
			req:        valid(),
			handlerErr: fault.New(fault.Unavailable, "store_unavailable", "Later.").WithCause(secretErr),
			wantStatus: 503, wantCode: "store_unavailable",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := send(t, serveAccessRoutes(c.handlerErr), c.req)
			r.check(t, c.wantStatus, c.wantCode)
			id := r.header.Get("X-Request-Id")
			if id == "" {
				t.Error("header X-Request-Id is missing")
			}
			if c.wantStatus >= 400 && r.body["request_id"] != id {
				t.Errorf("request_id = %v, want the header's %q", r.body["request_id"], id)
			}
			if strings.Contains(fmt.Sprint(r.body), "the secret value") {
				t.Errorf("response reveals the cause: %v", r.body)
			}
			if c.wantStatus == 405 {
				checkHeader(t, r.header, "Allow", "POST")
			}
		})
	}
}

// TestMux_AllowsHEADWithGET asks a path that only has GET for other methods.
func TestMux_AllowsHEADWithGET(t *testing.T) {
	t.Parallel()
	h := servePublic(http.MethodGet, function.Handle(func(context.Context, function.Empty) (echo, error) {
		return echo{"a"}, nil
	}))
	r := send(t, h, httptest.NewRequest(http.MethodPost, "/test", nil))
	r.check(t, http.StatusMethodNotAllowed, "method_not_allowed")
	checkHeader(t, r.header, "Allow", "GET, HEAD")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodHead, "/test", nil))
	if w.Code != http.StatusOK { // the server leaves out the body
		t.Errorf("HEAD: status %d, want 200", w.Code)
	}
}

// TestMux_SendsBrowsersHome: people open the address of the API, which is no page.
func TestMux_SendsBrowsersHome(t *testing.T) {
	t.Parallel()
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") })
	mux := function.Guard{}.Mux([]function.Served{{Method: http.MethodGet, Path: "/app", Handler: page, Home: true}})
	const browser = "text/html,application/xhtml+xml,*/*;q=0.8"
	for _, row := range []struct {
		method, path, accept string
		want                 int
	}{
		{method: http.MethodGet, path: "/", accept: browser, want: http.StatusFound},
		{method: http.MethodGet, path: "/app/", accept: browser, want: http.StatusFound},
		{method: http.MethodGet, path: "/app", accept: browser, want: http.StatusOK},
		{method: http.MethodGet, path: "/", accept: "*/*", want: http.StatusNotFound},
		{method: http.MethodPost, path: "/", accept: browser, want: http.StatusNotFound},
		{method: http.MethodGet, path: "/none", accept: browser, want: http.StatusNotFound},
	} {
		req := httptest.NewRequest(row.method, row.path, nil)
		req.Header.Set("Accept", row.accept)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, req)
		if w.Code != row.want || row.want == http.StatusFound && w.Header().Get("Location") != "/app" {
			t.Errorf("%s %s for %s: %d to %q, want %d", row.method, row.path, row.accept, w.Code,
				w.Header().Get("Location"), row.want)
		}
	}
}

func TestRoute_ReplacesUnsafeRequestIDs(t *testing.T) {
	t.Parallel()
	for id, wantKept := range map[string]bool{
		"abc-123_X.y": true, "": false, "a b": false, "a\"b": false, strings.Repeat("x", 129): false,
	} {
		req := postJSON("/api/v1/user", "Bearer admin", validBody)
		req.Header.Set("X-Request-Id", id)
		got := send(t, serveAccessRoutes(nil), req).header.Get("X-Request-Id")
		if got == "" {
			t.Errorf("request id %q: response has none", id)
		}
		if kept := got == id; kept != wantKept {
			t.Errorf("request id %q: response has %q, kept = %t, want %t", id, got, kept, wantKept)
		}
	}
}

// The value of a panic may be anything, such as a request with a secret.
func TestRoute_LogsNoValueOfAPanic(t *testing.T) { //nolint:paralleltest // captures the process's logger
	logs := captureLogs(t, "")
	route := function.Route{
		Name: "R", Method: http.MethodGet, Path: "/r", Access: function.Public, Status: http.StatusOK,
		Handle: function.Handle(func(context.Context, function.Empty) (function.None, error) {
			panic(errors.New("hunter2"))
		}),
	}
	r := send(t, route.Handler(function.Guard{}), httptest.NewRequest(http.MethodGet, "/r", nil))
	if r.status != http.StatusInternalServerError {
		t.Errorf("status = %d, want 500", r.status)
	}
	if !strings.Contains(logs.String(), "panic of type") || strings.Contains(logs.String(), "hunter2") {
		t.Errorf("the log is %s, want the type of the panic without its value", logs)
	}
}

func TestRoute_LogsOneLineWithoutSecrets(t *testing.T) { //nolint:paralleltest // captures the process's logger
	logs := captureLogs(t, "proj")
	req := postJSON("/api/v1/admin?token=secret-in-query", "Bearer admin", `{"text": "secret in the body"}`)
	req.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	err := fault.New(fault.Unavailable, "store_unavailable", "Later.").WithCause(errors.New("the cause"))
	send(t, serveAccessRoutes(err), req)
	if n := strings.Count(logs.String(), "\n"); n != 1 {
		t.Fatalf("logged %d lines, want 1: %s", n, logs)
	}
	var line map[string]any
	if err := json.Unmarshal(logs.Bytes(), &line); err != nil {
		t.Fatalf("log line is not JSON: %v: %s", err, logs)
	}
	for key, want := range map[string]any{
		"severity": "WARNING", "message": "POST /api/v1/admin", "function": "admin", "code": "store_unavailable",
		"organization_id":                      "o1",
		"logging.googleapis.com/trace":         "projects/proj/traces/0af7651916cd43dd8448eb211c80319c",
		"logging.googleapis.com/spanId":        "b7ad6b7169203331",
		"logging.googleapis.com/trace_sampled": true, "@type": nil,
	} {
		if line[key] != want {
			t.Errorf("%s = %v, want %v", key, line[key], want)
		}
	}
	if _, err := time.Parse(time.RFC3339Nano, fmt.Sprint(line["time"])); err != nil {
		t.Errorf("time is not in the format of Cloud Logging: %v", err)
	}
	if strings.Contains(logs.String(), "secret") {
		t.Errorf("log line contains a secret: %s", logs)
	}
	if !strings.Contains(logs.String(), "the cause") {
		t.Errorf("log line lacks the cause: %s", logs)
	}
}

func TestNewLogger_NamesLevelAndMessageOnce(t *testing.T) {
	t.Parallel()
	for level, want := range map[slog.Level]string{
		slog.LevelDebug: "DEBUG", slog.LevelInfo: "INFO", slog.LevelWarn: "WARNING", slog.LevelError: "ERROR",
	} {
		var b bytes.Buffer
		const message = `"level":"WARN","msg":"x"`
		function.NewLogger(&b, slog.LevelDebug, "").Log(t.Context(), level, message, "why", message)
		var line map[string]any
		if err := json.Unmarshal(b.Bytes(), &line); err != nil {
			t.Fatalf("%s: %v", b.String(), err)
		}
		if line["severity"] != want || line["message"] != message || line["why"] != message {
			t.Errorf("the line %s has severity %v, message %v and why %v, want %s and twice %s", b.String(),
				line["severity"], line["message"], line["why"], want, message)
		}
		if line["level"] != nil || line["msg"] != nil || line["time"] == nil {
			t.Errorf("the line %s has slog's names, or no time", b.String())
		}
	}
}

func TestNewLogger_FormatsErrorsForErrorReporting(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	function.NewLogger(&b, slog.LevelInfo, "").ErrorContext(t.Context(), "it broke", "why", "reason")
	var line struct {
		Type, Message, Severity string
		Context                 struct {
			ReportLocation struct {
				FilePath, FunctionName string
				LineNumber             int
			}
		}
	}
	text := bytes.Replace(b.Bytes(), []byte(`"@type"`), []byte(`"type"`), 1)
	if err := json.Unmarshal(text, &line); err != nil {
		t.Fatal(err)
	}
	const wantType = "type.googleapis.com/google.devtools.clouderrorreporting.v1beta1.ReportedErrorEvent"
	if line.Type != wantType {
		t.Errorf("@type = %q, want %q", line.Type, wantType)
	}
	if line.Message != "it broke" {
		t.Errorf("message = %q, want %q", line.Message, "it broke")
	}
	if line.Severity != "ERROR" {
		t.Errorf("severity = %q, want ERROR", line.Severity)
	}
	at := line.Context.ReportLocation
	if !strings.HasSuffix(at.FilePath, "function_test.go") {
		t.Errorf("filePath = %q, want this file", at.FilePath)
	}
	if !strings.HasSuffix(at.FunctionName, t.Name()) {
		t.Errorf("functionName = %q, want %s", at.FunctionName, t.Name())
	}
	if at.LineNumber == 0 {
		t.Error("lineNumber is missing")
	}
}

// fakePushVerifier answers every token with err.
type fakePushVerifier struct{ err error }

func (v fakePushVerifier) Verify(context.Context, string) error { return v.err }

// TestWorker_AcknowledgesFailedTicks: a redelivery would repeat the work of a whole tick, which the next one repeats
// anyway.
func TestWorker_AcknowledgesFailedTicks(t *testing.T) { //nolint:paralleltest // replaces the process's logger
	const tick = `{"message":{"messageId":"m1","publishTime":"2026-01-01T00:00:00Z"},"subscription":"s"}`
	for name, c := range map[string]struct {
		schedule   string
		handle     func() error
		wantStatus int
		wantEvents int
	}{
		"a tick": {schedule: "* * * * *", handle: func() error { return nil }, wantStatus: 204},
		"a tick that fails": {
			schedule: "* * * * *", handle: func() error { return errors.New("why") }, wantStatus: 204, wantEvents: 1,
		},
		"a tick during an outage": {
			schedule: "* * * * *", handle: func() error { return fault.New(fault.Unavailable, "busy", "Later.") },
			wantStatus: 204, wantEvents: 1,
		},
		"a tick that panics": {
			schedule: "* * * * *", handle: func() error { panic("hunter2") }, wantStatus: 204, wantEvents: 1,
		},
		"a nudge that fails": {handle: func() error { return errors.New("why") }, wantStatus: 500},
	} {
		logs := captureLogs(t, "")
		worker := function.Worker{Name: "W", Schedule: c.schedule}
		worker.Handle = func(context.Context, function.Message) error {
			return c.handle()
		}
		r := send(t, worker.Handler(fakePushVerifier{}), postJSON(worker.Path(), "Bearer t", tick))
		if r.status != c.wantStatus {
			t.Errorf("%s: status = %d, want %d; body %v", name, r.status, c.wantStatus, r.body)
		}
		if got := strings.Count(logs.String(), `"event":"scheduled_run_failed","worker":"W"`); got != c.wantEvents {
			t.Errorf("%s: %d events, want %d: %s", name, got, c.wantEvents, logs)
		}
		if strings.Contains(logs.String(), "hunter2") {
			t.Errorf("%s: the log has the value of the panic: %s", name, logs)
		}
	}
}

func TestWorker_AnswersPushes(t *testing.T) {
	t.Parallel()
	data := base64.StdEncoding.EncodeToString([]byte(`{"agent_id":"a"}`))
	push := `{"message":{"data":"` + data +
		`","messageId":"m1","publishTime":"2026-01-01T00:00:00Z"},"subscription":"s","deliveryAttempt":3}`
	for name, c := range map[string]struct {
		authorization, body   string
		verifyErr, handlerErr error
		wantStatus            int
	}{
		"handled":       {authorization: "Bearer t", body: push, wantStatus: 204},
		"no token":      {authorization: "", body: push, wantStatus: 401},
		"invalid token": {authorization: "Bearer t", body: push, verifyErr: identity.InvalidToken(), wantStatus: 401},
		"temporary error": {
			authorization: "Bearer t", body: push,
			handlerErr: fault.New(fault.Unavailable, "busy", "Later."), wantStatus: 503,
		},
		"permanent error": {
			authorization: "Bearer t", body: push,
			handlerErr: fault.New(fault.BadRequest, "agent_id_malformed", "It is no id."), wantStatus: 400,
		},
		"unwrapped message": {authorization: "Bearer t", body: `{"agent_id":"a"}`, wantStatus: 400},
		"body is not JSON":  {authorization: "Bearer t", body: `{`, wantStatus: 400},
		"unknown error":     {authorization: "Bearer t", body: push, handlerErr: errors.New("why"), wantStatus: 500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			worker := function.Worker{Name: "W", Handle: func(_ context.Context, got function.Message) error {
				published := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
				if string(got.Data) != `{"agent_id":"a"}` {
					t.Errorf("Data = %s, want the decoded nudge", got.Data)
				}
				if got.ID != "m1" || got.Attempt != 3 || !got.PublishedAt.Equal(published) {
					t.Errorf("ID, Attempt, PublishedAt = %s, %d, %s, want m1, 3, %s", got.ID, got.Attempt,
						got.PublishedAt, published)
				}
				return c.handlerErr
			}}
			r := send(t, worker.Handler(fakePushVerifier{c.verifyErr}),
				postJSON(worker.Path(), c.authorization, c.body))
			if r.status != c.wantStatus {
				t.Errorf("status = %d, want %d; body %v", r.status, c.wantStatus, r.body)
			}
		})
	}
}

// TestDecode_BoundsItsViolations sends a body with more mistakes than an answer lists.
func TestDecode_BoundsItsViolations(t *testing.T) {
	t.Parallel()
	type input struct {
		Body struct {
			Tags []int `json:"tags"`
		} `json:"body"`
	}
	h := servePublic(http.MethodPost, function.Handle(func(context.Context, input) (function.None, error) {
		return function.None{}, nil
	}))
	body := `{"tags": [` + strings.Repeat(`"a",`, 20_000) + `1]}`
	r := send(t, h, newRequest(http.MethodPost, "/test", "", body))
	r.check(t, http.StatusUnprocessableEntity, "validation_error")
	if found, _ := r.body["detail"].([]any); len(found) != 1000 {
		t.Errorf("%d violations, want the first 1000", len(found))
	}
}

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
	"os"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	os.Exit(m.Run())
}

// tokens authenticates by the text of the token.
type tokens struct{}

func (tokens) Authenticate(ctx context.Context, token string, _ document.Ref) (context.Context, identity.Caller,
	error) {
	switch token {
	case "admin":
		return ctx, identity.Caller{ID: "u1", OrganizationID: "o1", Role: identity.RoleAdmin}, nil
	case "member":
		return ctx, identity.Caller{ID: "u2", OrganizationID: "o1", Role: identity.RoleMember}, nil
	case "other":
		return ctx, identity.Caller{ID: "u4", OrganizationID: "o2", Role: identity.RoleAdmin}, nil
	case "nowhere":
		return ctx, identity.Caller{ID: "u3"}, nil
	case "outage":
		return ctx, identity.Caller{}, fault.New(fault.Unavailable, "identity_provider_unavailable", "Down.")
	default:
		return ctx, identity.Caller{}, identity.InvalidToken()
	}
}

type echoInput struct {
	Body struct {
		Text string `json:"text"`
	} `json:"body"`
}

type echo struct {
	Text string `json:"text"`
}

// routes is a small catalogue: one route a kind of access, and some that fail.
func routes(fail error) http.Handler {
	handle := function.Handle(func(_ context.Context, in echoInput) (echo, error) {
		if in.Body.Text == "panic" {
			panic("the secret value")
		}
		return echo{in.Body.Text}, fail
	})
	var served []function.Served
	for access, path := range map[function.Access]string{
		function.Admin: "/api/v1/admin", function.Member: "/api/v1/agents/member", function.User: "/api/v1/user",
		function.Public: "/api/v1/public",
	} {
		r := function.Route{Name: string(access), Method: http.MethodPost, Path: path, Access: access,
			Status: http.StatusOK, BodyLimit: 1000, Handle: handle}
		served = append(served, function.Served{Method: r.Method, Path: r.Path,
			Handler: r.Handler(function.Guard{Authenticator: tokens{}})})
	}
	return function.Mux(served)
}

type reply struct {
	status int
	header http.Header
	body   map[string]any
}

func call(t *testing.T, h http.Handler, req *http.Request) reply {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	r := reply{status: w.Code, header: w.Header()}
	if w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), &r.body); err != nil {
			t.Fatalf("the body is no JSON object: %s", w.Body)
		}
	}
	return r
}

func request(path, token, body string) *http.Request {
	req := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	if token != "" {
		req.Header.Set("Authorization", token)
	}
	req.Header.Set("Content-Type", "application/json")
	return req
}

// TestWhoIsLetIn tries every kind of access with every kind of caller. The body is never valid, so 422 means that the
// caller was let in.
func TestWhoIsLetIn(t *testing.T) {
	t.Parallel()
	const in = 422
	callers := map[string][4]int{ // admin, member, user, public
		"":               {401, 401, 401, in},
		"Bearer":         {401, 401, 401, in},
		"Basic admin":    {401, 401, 401, in},
		"Bearer garbage": {401, 401, 401, in},
		"Bearer a b":     {401, 401, 401, in},
		"Bearer nowhere": {403, 403, in, in},
		"Bearer member":  {403, in, in, in},
		"bearer admin":   {in, in, in, in},
		"Bearer outage":  {503, 503, 503, in},
	}
	h := routes(nil)
	for token, want := range callers {
		for i, path := range []string{"/api/v1/admin", "/api/v1/agents/member", "/api/v1/user", "/api/v1/public"} {
			r := call(t, h, request(path, token, `{}`))
			if r.status != want[i] {
				t.Errorf("%q on %s: %d, want %d", token, path, r.status, want[i])
			}
			if (r.status == 401) != (r.header.Get("WWW-Authenticate") == "Bearer") ||
				(r.status == 503) != (r.header.Get("Retry-After") != "") {
				t.Errorf("%q on %s: headers %v", token, path, r.header)
			}
		}
	}
}

// neverRead is a body that must not be read.
type neverRead struct{ t *testing.T }

func (n neverRead) Read([]byte) (int, error) {
	n.t.Error("the body was read")
	return 0, io.EOF
}

func TestRefusalComesBeforeTheBody(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"", "Bearer garbage", "Bearer member"} {
		req := httptest.NewRequest(http.MethodPost, "/api/v1/admin", neverRead{t})
		req.Header.Set("Authorization", token)
		if r := call(t, routes(nil), req); r.status != 401 && r.status != 403 {
			t.Errorf("%q: %d", token, r.status)
		}
	}
}

func TestProtocol(t *testing.T) {
	t.Parallel()
	plain := request("/api/v1/admin", "Bearer admin", `{"text": "x"}`)
	plain.Header.Set("Content-Type", "text/plain")
	cases := map[string]struct {
		req    *http.Request
		fail   error
		status int
		code   string
	}{
		"a good call": {req: request("/api/v1/admin", "Bearer admin", `{"text": "x"}`), fail: nil,
			status: 200, code: ""},
		"the path without /api": {req: request("/agents/member", "Bearer admin", `{"text": "x"}`), fail: nil,
			status: 200, code: ""},
		"another path without": {req: request("/user", "Bearer admin", `{"text": "x"}`), fail: nil, status: 404,
			code: "not_found"},
		"an unknown path": {req: request("/api/v1/none", "", `{}`), fail: nil, status: 404, code: "not_found"},
		"empty segments": {req: request("//api/v1//admin", "Bearer admin", `{"text": "x"}`), fail: nil,
			status: 404, code: "not_found"},
		"dotted segments": {req: request("/api/v1/x/../admin", "Bearer admin", `{"text": "x"}`), fail: nil,
			status: 404, code: "not_found"},
		"a slash at the end": {req: request("/api/v1/admin/", "Bearer admin", `{"text": "x"}`), fail: nil,
			status: 404, code: "not_found"},
		"another method": {req: httptest.NewRequest(http.MethodPut, "/api/v1/admin", nil), fail: nil,
			status: 405, code: "method_not_allowed"},
		"no JSON": {req: plain, fail: nil, status: 415, code: "unsupported_media_type"},
		"too large": {req: request("/api/v1/admin", "Bearer admin", `{"text": "`+strings.Repeat("x", 1000)+
			`"}`), fail: nil, status: 413, code: "body_too_large"},
		"a panic": {req: request("/api/v1/admin", "Bearer admin", `{"text": "panic"}`), fail: nil,
			status: 500, code: "internal_error"},
		"an unknown error": {req: request("/api/v1/admin", "Bearer admin", `{"text": "x"}`),
			fail: errors.New("the secret value"), status: 500, code: "internal_error"},
		"a wrapped fault": {req: request("/api/v1/admin", "Bearer admin", `{"text": "x"}`),
			fail: fmt.Errorf("while: %w", fault.New(fault.Conflict, "agent_deleting", "No.")), status: 409,
			code: "agent_deleting"},
		"a context that ended": {req: request("/api/v1/admin", "Bearer admin", `{"text": "x"}`),
			fail: context.DeadlineExceeded, status: 503, code: "timeout"},
		"a fault with its cause": {req: request("/api/v1/admin", "Bearer admin", `{"text": "x"}`),
			fail: fault.New(fault.Unavailable, "store_unavailable",
				"Later.").WithCause(errors.New("the secret value")),
			status: 503, code: "store_unavailable"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := call(t, routes(c.fail), c.req)
			code, _ := r.body["code"].(string)
			if r.status != c.status || code != c.code {
				t.Fatalf("%d %q, want %d %q: %v", r.status, code, c.status, c.code, r.body)
			}
			if r.header.Get("X-Request-Id") == "" ||
				(c.status >= 400 && r.body["request_id"] != r.header.Get("X-Request-Id")) {
				t.Errorf("request id %q, body %v", r.header.Get("X-Request-Id"), r.body)
			}
			if strings.Contains(fmt.Sprint(r.body), "the secret value") {
				t.Error("the answer shows what is not public")
			}
			if c.status == 405 && r.header.Get("Allow") != "POST" {
				t.Errorf("Allow %q", r.header.Get("Allow"))
			}
		})
	}
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	for id, kept := range map[string]bool{"abc-123_X.y": true, "": false, "a b": false, "a\"b": false,
		strings.Repeat("x", 129): false} {
		req := request("/api/v1/user", "Bearer admin", `{"text": "x"}`)
		req.Header.Set("X-Request-Id", id)
		if got := call(t, routes(nil), req).header.Get("X-Request-Id"); (got == id) != kept || got == "" {
			t.Errorf("%q became %q", id, got)
		}
	}
}

// TestOneLogLine is not parallel: it looks at the process's logger.
func TestOneLogLine(t *testing.T) { //nolint:paralleltest // see above
	var b bytes.Buffer
	old := slog.Default()
	slog.SetDefault(function.NewLogger(&b, slog.LevelInfo, "proj"))
	t.Cleanup(func() { slog.SetDefault(old) })
	req := request("/api/v1/admin?token=secret-in-query", "Bearer admin", `{"text": "secret in the body"}`)
	req.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	call(t, routes(fault.New(fault.Unavailable, "store_unavailable", "Later.").WithCause(errors.New("why"))), req)
	var line map[string]any
	if err := json.Unmarshal(b.Bytes(), &line); err != nil || strings.Count(b.String(), "\n") != 1 {
		t.Fatalf("want one JSON line, got %q", b.String())
	}
	want := map[string]any{
		"severity": "WARNING", "message": "POST /api/v1/admin", "function": "admin", "code": "store_unavailable",
		"organization_id":                      "o1",
		"logging.googleapis.com/trace":         "projects/proj/traces/0af7651916cd43dd8448eb211c80319c",
		"logging.googleapis.com/spanId":        "b7ad6b7169203331",
		"logging.googleapis.com/trace_sampled": true, "@type": nil,
	}
	if _, err := time.Parse(time.RFC3339Nano, fmt.Sprint(line["time"])); err != nil {
		t.Errorf("the line has no time that Cloud Logging takes: %v", err)
	}
	for k, v := range want {
		if line[k] != v {
			t.Errorf("%s is %v, want %v", k, line[k], v)
		}
	}
	if strings.Contains(b.String(), "secret") || !strings.Contains(b.String(), "why") {
		t.Errorf("the line is %s", b.String())
	}
}

// TestErrorsAreReported looks at a line of the kind that Error Reporting takes.
func TestErrorsAreReported(t *testing.T) {
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
	at := line.Context.ReportLocation
	if line.Type != "type.googleapis.com/google.devtools.clouderrorreporting.v1beta1.ReportedErrorEvent" ||
		line.Message != "it broke" ||
		line.Severity != "ERROR" || !strings.HasSuffix(at.FilePath, "function_test.go") || at.LineNumber == 0 ||
		!strings.HasSuffix(at.FunctionName, "TestErrorsAreReported") {
		t.Errorf("the line is %s", b.String())
	}
}

type pushes struct{ err error }

func (p pushes) Verify(context.Context, string) error { return p.err }

func TestWorker(t *testing.T) {
	t.Parallel()
	data := base64.StdEncoding.EncodeToString([]byte(`{"agent_id":"a"}`))
	good := `{"message":{"data":"` + data +
		`","messageId":"m1","publishTime":"2026-01-01T00:00:00Z"},"subscription":"s","deliveryAttempt":3}`
	cases := map[string]struct {
		token, body string
		verify      error
		handle      error
		status      int
	}{
		"done":        {token: "Bearer t", body: good, verify: nil, handle: nil, status: 204},
		"no token":    {token: "", body: good, verify: nil, handle: nil, status: 401},
		"a bad token": {token: "Bearer t", body: good, verify: identity.InvalidToken(), handle: nil, status: 401},
		"come again": {token: "Bearer t", body: good, verify: nil,
			handle: fault.New(fault.Unavailable, "busy", "Later."), status: 503},
		"not a push":       {token: "Bearer t", body: `{"agent_id":"a"}`, verify: nil, handle: nil, status: 400},
		"not even JSON":    {token: "Bearer t", body: `{`, verify: nil, handle: nil, status: 400},
		"an unknown error": {token: "Bearer t", body: good, verify: nil, handle: errors.New("why"), status: 500},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := function.Worker{Name: "W", Handle: func(_ context.Context, m function.Message) error {
				if string(m.Data) != `{"agent_id":"a"}` || m.ID != "m1" || m.Attempt != 3 || m.PublishedAt.IsZero() {
					t.Errorf("message %+v", m)
				}
				return c.handle
			}}
			if r := call(t, w.Handler(pushes{c.verify}), request(w.Path(), c.token, c.body)); r.status != c.status {
				t.Errorf("%d, want %d: %v", r.status, c.status, r.body)
			}
		})
	}
}

package function_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/ratelimit"
	"agents.example/controlplane/shared/testtier"
)

func TestMain(m *testing.M) {
	testtier.SilenceLogs()
	os.Exit(m.Run())
}

// captureLogs redirects the process's logger to the returned buffer. A test that uses it must not be parallel.
func captureLogs(t *testing.T, project string) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	old := slog.Default()
	slog.SetDefault(function.NewLogger(&b, slog.LevelInfo, project))
	t.Cleanup(func() { slog.SetDefault(old) })
	return &b
}

// fakeAuthenticator knows a few tokens, each named for its caller. Every other token is invalid, and counts for its
// address.
type fakeAuthenticator struct{ limiter *ratelimit.Limiter }

func (f fakeAuthenticator) Authenticate(
	_ context.Context, t identity.Attempt,
) (identity.Caller, *document.Fetched, error) {
	switch t.Token {
	case "key": // fetches the document with the caller; o1 owns the agent agentID
		owners := map[string]string{agentID: "o1", otherAgentID: "o2"}
		return identity.Caller{Type: identity.APIKey, ID: "k1", OrganizationID: "o1", Role: identity.RoleAdmin},
			document.NewFetched(t.Reads, owners[t.Reads.ID], nil), nil
	case "admin":
		return identity.Caller{ID: "u1", OrganizationID: "o1", Role: identity.RoleAdmin}, nil, nil
	case "member":
		return identity.Caller{ID: "u2", OrganizationID: "o1", Role: identity.RoleMember}, nil, nil
	case "no-organization":
		return identity.Caller{ID: "u3"}, nil, nil
	case "other-admin": // of another organization
		return identity.Caller{ID: "u4", OrganizationID: "o2", Role: identity.RoleAdmin}, nil, nil
	case "outage":
		return identity.Caller{}, nil, fault.New(fault.Unavailable, "identity_provider_unavailable", "Down.")
	default:
		if f.limiter != nil {
			if err := f.limiter.Take(ratelimit.Authentication, t.Address).Err(); err != nil {
				return identity.Caller{}, nil, err
			}
		}
		return identity.Caller{}, nil, identity.InvalidToken()
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

// validBody is a valid body for echoInput.
const validBody = `{"text": "x"}`

const agentID = "3fa85f64-5717-4562-b3fc-2c963f66afa6"

// serveRoutes serves routes behind a guard with fakeAuthenticator.
func serveRoutes(g function.Guard, routes ...function.Route) http.Handler {
	g.Authenticator = fakeAuthenticator{g.Limiter}
	var served []function.Served
	for _, r := range routes {
		served = append(served, r.Served(g))
	}
	return g.Mux(served)
}

// serveTCP serves a handler over TCP until the test ends, with the server of deployed processes.
func serveTCP(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.Config = function.NewServer(h)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// servePublic serves one public route at /test.
func servePublic(method string, handle function.Endpoint) http.Handler {
	return serveRoutes(function.Guard{}, function.Route{
		Name: "Test", Method: method, Path: "/test", Access: function.Public, Status: http.StatusOK, Handle: handle,
	})
}

// newRequest makes a request with a bearer token and any number of idempotency keys.
func newRequest(method, path, token, body string, idempotencyKeys ...string) *http.Request {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+token)
	for _, key := range idempotencyKeys {
		req.Header.Add("Idempotency-Key", key)
	}
	return req
}

// response is a response with a JSON object or no body.
type response struct {
	status int
	header http.Header
	body   map[string]any
}

// send sends a request to a handler.
func send(t *testing.T, h http.Handler, req *http.Request) response {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	r := response{status: w.Code, header: w.Header()}
	if w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), &r.body); err != nil {
			t.Fatalf("body is not a JSON object: %s", w.Body)
		}
	}
	return r
}

// check compares the status and the error code; the code of a success is empty.
func (r response) check(t *testing.T, wantStatus int, wantCode string) {
	t.Helper()
	if r.status != wantStatus {
		t.Errorf("status = %d, want %d; body %v", r.status, wantStatus, r.body)
	}
	if code, _ := r.body["code"].(string); code != wantCode {
		t.Errorf("code = %q, want %q; body %v", code, wantCode, r.body)
	}
}

// checkHeader compares one header of a response.
func checkHeader(t *testing.T, h http.Header, name, want string) {
	t.Helper()
	if got := h.Get(name); got != want {
		t.Errorf("header %s = %q, want %q", name, got, want)
	}
}

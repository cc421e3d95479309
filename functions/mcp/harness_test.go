package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	tools "agents.example/controlplane/functions/mcp"
	"agents.example/controlplane/functions/mcp/mcproute"
	"agents.example/controlplane/shared/clientip"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/plan"
)

const org = "org-1"

// edgeSecret is the secret that the load balancer of the test sends.
const edgeSecret = "secret-of-the-edge-0123456789abcdef"

// service is the whole catalogue, served over TCP.
type service struct {
	*backendtest.Backend
	url string
	// setAPI changes the address at which the tools call the API, and how many requests are served at the same time.
	setAPI func(url string, requests int)
}

// start serves all routes on an embedded backend. The tools call the same address.
func start(t *testing.T, change ...func(*backendtest.Backend)) *service {
	t.Helper()
	b := backendtest.New(t)
	for _, f := range change {
		f(b)
	}
	b.SetPlan(t, org, plan.Startup)
	var handler http.Handler
	server := functiontest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		handler.ServeHTTP(w, req)
	}))
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	voucher := clientip.NewVoucher([]byte(edgeSecret))
	serve := func(base string, requests int) {
		b.API = mcproute.API{
			BaseURL: base, Transport: transport, Vouch: voucher.Vouch, MaxRequests: requests, Open: tools.New,
		}
		var served []function.Served
		for _, r := range functions.Routes(b.Dependencies) {
			served = append(served, r.Served(b.Guard))
		}
		handler = clientip.NewEdge([]string{edgeSecret}).Accepting(voucher).Handler(function.Mux(served))
	}
	serve(server.URL, 0)
	return &service{b, server.URL, serve}
}

// bearer sends a token, and what a client's program and the load balancer add.
type bearer struct {
	token string
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+b.token)
	req.Header.Set("User-Agent", "assistant/1.0")
	req.Header.Set("X-Request-Id", "req-assistant")
	req.Header.Set(clientip.AddressHeader, "203.0.113.7")
	req.Header.Set(clientip.SecretHeader, edgeSecret)
	return b.next.RoundTrip(req)
}

// connect starts a session with a version of the protocol; empty for the newest.
func (s *service) connect(t *testing.T, token, version string) *mcp.ClientSession {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c := mcp.NewClient(&mcp.Implementation{Name: "assistant", Version: "1.0"}, nil)
	session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: s.url + "/mcp", HTTPClient: &http.Client{Transport: bearer{token, transport}},
	}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// result is the answer of a tool.
type result struct {
	failed bool
	text   string
	// structured is the data, which is structured content or the second text.
	structured map[string]any
	// whole is everything that the client received.
	whole string
}

// callTool calls a tool and returns what an assistant sees.
func callTool(t *testing.T, session *mcp.ClientSession, name string, arguments map[string]any) result {
	t.Helper()
	res, err := session.CallTool(context.WithoutCancel(t.Context()), &mcp.CallToolParams{
		Name: name, Arguments: arguments,
	})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	whole, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	r := result{failed: res.IsError, whole: string(whole)}
	for _, c := range res.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			r.text += text.Text + "\n"
		}
	}
	r.structured, _ = res.StructuredContent.(map[string]any)
	if r.structured == nil && len(res.Content) == 2 { // the data of a reading tool is its second text
		data, _ := res.Content[1].(*mcp.TextContent)
		if err := json.Unmarshal([]byte(data.Text), &r.structured); err != nil {
			t.Fatalf("%s: the second text is %q, want data: %v", name, data.Text, err)
		}
	}
	return r
}

// want calls a tool that must succeed.
func want(t *testing.T, session *mcp.ClientSession, name string, arguments map[string]any) result {
	t.Helper()
	r := callTool(t, session, name, arguments)
	if r.failed || r.structured == nil {
		t.Fatalf("%s: got %s, want a success", name, r.whole)
	}
	return r
}

// wantError calls a tool that must fail with a code.
func wantError(t *testing.T, session *mcp.ClientSession, name string, arguments map[string]any, code string) result {
	t.Helper()
	r := callTool(t, session, name, arguments)
	if !r.failed || !strings.HasPrefix(r.text, code+": ") || !strings.Contains(r.text, "Next: ") {
		t.Errorf("%s: got %q, want the error %s with what to do next", name, r.text, code)
	}
	return r
}

// post sends a request of the protocol by hand.
func (s *service) post(t *testing.T, method, body string, header map[string]string) *httptest.ResponseRecorder {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range header {
		req.Header.Set(name, value)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // nothing is written
	w := httptest.NewRecorder()
	if _, err := w.Body.ReadFrom(res.Body); err != nil {
		t.Fatal(err)
	}
	w.Code, w.HeaderMap = res.StatusCode, res.Header //nolint:staticcheck // it is only a place to keep them
	return w
}

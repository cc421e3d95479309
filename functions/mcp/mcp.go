// Package mcp serves the Model Context Protocol at /mcp, so that assistants can create agents, watch them and repair
// them. A tool is a call of the public API with the caller's token: this package reads no record and has no right of
// any kind, and the API checks, limits and audits each call as if the caller had sent it alone.
package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/ratelimit"
)

// API says how tools reach the public API. Requests go over HTTP in every topology, because the routes that a tool
// calls may be deployed as other services.
type API struct {
	// BaseURL is the configured address of the API. It never follows from a request. If empty, the route is
	// unavailable.
	BaseURL string
	// Transport sends the requests; nil is http.DefaultTransport.
	Transport http.RoundTripper
	// Vouch adds the address of the caller to a request that has its token; nil adds none.
	Vouch func(h http.Header, address string)
	// MaxRequests is how many requests of the protocol the process serves at the same time; zero for no bound. The
	// calls of tools may arrive at the same process, so it must be less than the requests that the process serves.
	MaxRequests int
}

const (
	// path is the address of the protocol. Its version is negotiated in the protocol.
	path = "/mcp"
	// bodyLimit has room for the largest values that the API takes, and the envelope around them.
	bodyLimit = 576 << 10
	// requestTimeout bounds a request as a whole. The longest tool waits for 55 seconds.
	requestTimeout = 70 * time.Second
	// requestsPerToken is how many requests with the same token the process serves at the same time.
	requestsPerToken = 8
)

// input is a request. Its body is a message of the protocol, which the library of the protocol validates.
type input struct {
	Header struct {
		Version string `json:"MCP-Protocol-Version,omitempty" jsonschema:"The version of the protocol that the client negotiated."`
		Method  string `json:"Mcp-Method,omitempty" jsonschema:"The method of the message, from version 2026-07-28."`
		Name    string `json:"Mcp-Name,omitempty" jsonschema:"The tool of the message, from version 2026-07-28."`
		Origin  string `json:"Origin,omitempty" jsonschema:"The origin of a web page. Only that of the API itself is accepted."`
	} `json:"header"`
	Body function.Verbatim `json:"body"`
}

// Example implements function.Exampler.
func (input) Example() any {
	var in input
	in.Body = function.Verbatim(`{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {` +
		`"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "assistant", "version": "1.0"}}}`)
	return in
}

// message is what this package reads of a message before the library does.
type message struct {
	Method string `json:"method"`
}

// callsTool reports whether the request is one call of a tool.
func (in input) callsTool() bool {
	var m message
	return json.Unmarshal(in.Body, &m) == nil && m.Method == "tools/call"
}

// answer is what the library answered.
type answer struct {
	status      int
	contentType string
	body        []byte
}

// Example implements function.Exampler.
func (answer) Example() any {
	return answer{body: []byte(`{"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "2025-11-25", ` +
		`"capabilities": {"tools": {}}, "serverInfo": {"name": "agents", "title": "Hosted agents", "version": "1.0"}}}`)}
}

// Reply implements function.Reply.
func (a answer) Reply(http.Header) any {
	if a.contentType == "" {
		a.contentType = "application/json"
	}
	return function.Raw{ContentType: a.contentType, Status: a.status, Bytes: a.body}
}

// Route serves the protocol. Its answers are complete: no stream stays open, and there are no sessions, so any instance
// serves any request.
//
// The guard does not authenticate the caller, because it would then count each call twice, as a change, and record it
// in the audit log. An invalid token is refused nevertheless: the API verifies it before the answer.
func Route(api API) function.Route {
	s := &service{api: api, handler: sync.OnceValues(newHandler)}
	if api.MaxRequests > 0 {
		s.slots = ratelimit.NewSlots(ratelimit.SlotLimits{
			Caller: requestsPerToken, Organization: requestsPerToken, Process: api.MaxRequests,
		})
	}
	return function.Route{
		Name: "CallMCP", Method: http.MethodPost, Path: path, Role: function.RoleAccounts, Access: function.Bearer,
		Status: http.StatusOK, Summary: "Call the Model Context Protocol", BodyLimit: bodyLimit,
		ResourceMetadata: api.resourceMetadata(),
		// Forbidden: a web page of another origin.
		Errors: []fault.Kind{fault.Forbidden}, Handle: function.Handle(s.serve),
	}
}

// resourceMetadata returns the address of the document that leads assistants to the identity provider.
func (a API) resourceMetadata() string {
	if a.BaseURL == "" {
		return ""
	}
	return a.BaseURL + "/.well-known/oauth-protected-resource" + path
}

// service serves the route.
type service struct {
	api API
	// slots bound the requests, so that the calls of tools find free places. The organization of a token is not known
	// yet, so each token counts as one; the API bounds the waits of an organization.
	slots *ratelimit.Slots
	// handler is made by the first request, because it infers the schemas of all tools.
	handler func() (http.Handler, error)
}

func newHandler() (http.Handler, error) {
	server, err := newServer()
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		// The library would compare the host of the connection. checkOrigin protects in every deployment.
		DisableLocalhostProtection: true,

		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: bodyLimit, PropagateRequestCancellation: true,
	}), err
}

func (s *service) serve(ctx context.Context, in input) (answer, error) {
	if err := s.checkOrigin(in.Header.Origin); err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	c, err := s.newCall(ctx)
	if err != nil {
		return answer{}, err
	}
	release, ok := s.slots.Acquire(c.caller, c.caller)
	if !ok {
		return answer{}, fault.New(fault.Unavailable, "too_many_requests_in_flight",
			"The service is serving too many requests of this kind, or of this token. Retry.")
	}
	defer release()
	// The API verifies the token of a tool's call in that call. Everything else is verified first.
	if !in.callsTool() {
		if err := c.verify(); err != nil {
			return answer{}, err
		}
	}
	if isBatch(in.Body) {
		return answer{}, fault.New(fault.BadRequest, "invalid_mcp_request",
			"The body is a batch, which newer versions of the protocol do not have. Send one message in each request.")
	}
	out, err := s.run(c, in)
	if refusal := c.verify(); refusal != nil {
		return answer{}, refusal
	}
	return out, err
}

// isBatch reports whether a body is a list of messages. The library would run all of them concurrently.
func isBatch(body []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("[")) }

// checkOrigin refuses web pages of other origins, as the protocol demands: a page could otherwise reach a service in
// the network of its visitor. Clients that are no browsers send no origin.
func (s *service) checkOrigin(origin string) error {
	base, err := url.Parse(s.api.BaseURL)
	if origin == "" || err == nil && origin == base.Scheme+"://"+base.Host {
		return nil
	}
	return fault.New(fault.Forbidden, "origin_not_allowed",
		"Web pages of other origins may not use this address. Call it from a program.")
}

// run lets the library answer the request.
func (s *service) run(c *call, in input) (answer, error) {
	handler, err := s.handler()
	if err != nil {
		return answer{}, err
	}
	req, err := http.NewRequestWithContext(context.WithValue(c.ctx, callKey{}, c), http.MethodPost, path,
		bytes.NewReader(in.Body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range map[string]string{
		"MCP-Protocol-Version": in.Header.Version, "Mcp-Method": in.Header.Method, "Mcp-Name": in.Header.Name,
	} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	w := recorder{header: http.Header{}, status: http.StatusOK}
	handler.ServeHTTP(&w, req)
	contentType := w.header.Get("Content-Type")
	if w.status >= http.StatusBadRequest && contentType != "application/json" {
		return answer{}, fault.New(fault.BadRequest, "invalid_mcp_request",
			"The request is not valid in the Model Context Protocol: %s", bytes.TrimSpace(w.body.Bytes()))
	}
	return answer{w.status, contentType, w.body.Bytes()}, nil
}

// recorder keeps an answer until the token is known to be valid.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) { r.status = status }

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

// Flush implements http.Flusher.
func (*recorder) Flush() {}

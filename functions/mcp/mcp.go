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

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agents.example/controlplane/functions/mcp/mcproute"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/ratelimit"
)

const (
	// requestsPerToken is how many requests with the same token the process serves at the same time.
	requestsPerToken = 8
)

// message is what this package reads of a message before the library does.
type message struct {
	Method string `json:"method"`
}

// callsTool reports whether the request is one call of a tool.
func callsTool(in mcproute.Request) bool {
	var m message
	return json.Unmarshal(in.Body, &m) == nil && m.Method == "tools/call"
}

// New returns the server of the protocol.
func New(api mcproute.API) mcproute.Server {
	s := &service{api: api, handler: sync.OnceValues(newHandler)}
	if api.MaxRequests > 0 {
		s.slots = ratelimit.NewSlots(ratelimit.SlotLimits{
			Caller: requestsPerToken, Organization: requestsPerToken, Process: api.MaxRequests,
		})
		s.shares = ratelimit.NewSlots(ratelimit.SlotLimits{
			Caller: requestsPerToken, Organization: api.MaxRequests, Process: api.MaxRequests,
		})
	}
	return s
}

// service implements mcproute.Server.
type service struct {
	api mcproute.API
	// slots bound the requests, so that the calls of tools find free places. The organization of a token is not known
	// yet, so each token counts as one. shares bound those of an organization with many tokens, once it is known.
	slots, shares *ratelimit.Slots
	// organizations are those of tokens that the API has accepted.
	organizations organizations
	// handler is made by the first request, because it infers the schemas of all tools.
	handler func() (http.Handler, error)
}

func newHandler() (http.Handler, error) {
	server, err := newServer()
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		// The library would compare the host of the connection. checkOrigin protects in every deployment.
		DisableLocalhostProtection: true,

		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: mcproute.BodyLimit,
		PropagateRequestCancellation: true,
	}), err
}

// Serve implements mcproute.Server.
func (s *service) Serve(ctx context.Context, in mcproute.Request) (mcproute.Response, error) {
	if err := s.checkOrigin(in.Header.Origin); err != nil {
		return mcproute.Response{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, mcproute.Timeout)
	defer cancel()
	c, err := s.newCall(ctx)
	if err != nil {
		return mcproute.Response{}, err
	}
	release, ok := s.slots.Acquire(c.caller, c.caller)
	if !ok {
		return mcproute.Response{}, tooManyRequests()
	}
	defer release()
	// The API verifies a known token of a tool's call in that call. Everything else is verified first.
	organizationID, known := s.organizations.of(c.caller)
	if !known || !callsTool(in) {
		if err := c.verify(); err != nil {
			return mcproute.Response{}, err
		}
		organizationID = s.organizations.learn(c)
	}
	releaseShare, ok := s.shares.Acquire(organizationID, c.caller)
	if !ok {
		return mcproute.Response{}, tooManyRequests()
	}
	defer releaseShare()
	if isBatch(in.Body) {
		return mcproute.Response{}, fault.New(fault.BadRequest, "invalid_mcp_request",
			"The body is a batch, which newer versions of the protocol do not have. Send one message in each request.")
	}
	out, err := s.run(c, in)
	if refusal := c.verify(); refusal != nil {
		return mcproute.Response{}, refusal
	}
	return out, err
}

func tooManyRequests() error {
	return fault.New(fault.Unavailable, "too_many_requests_in_flight",
		"The service is serving too many requests of this kind, of this token or of this organization. Retry.")
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
func (s *service) run(c *call, in mcproute.Request) (mcproute.Response, error) {
	handler, err := s.handler()
	if err != nil {
		return mcproute.Response{}, err
	}
	req, err := http.NewRequestWithContext(context.WithValue(c.ctx, callKey{}, c), http.MethodPost, mcproute.Path,
		bytes.NewReader(in.Body))
	if err != nil {
		return mcproute.Response{}, err
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
		return mcproute.Response{}, fault.New(fault.BadRequest, "invalid_mcp_request",
			"The request is not valid in the Model Context Protocol: %s", bytes.TrimSpace(w.body.Bytes()))
	}
	return mcproute.Response{Status: w.status, ContentType: contentType, Body: c.withList(w.body.Bytes())}, nil
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

// Package mcproute describes the route of the Model Context Protocol. It does not serve the protocol: package mcp does,
// and only binaries that serve the route link the protocol's library.
package mcproute

import (
	"context"
	"errors"
	"net/http"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
)

const (
	// Path is the address of the protocol. Its version is negotiated in the protocol.
	Path = "/mcp"
	// BodyLimit has room for the largest values that the API takes, and the envelope around them.
	BodyLimit = 576 << 10

	// Timeout bounds a request as a whole. The longest tool waits for 55 seconds.
	Timeout = 70 * time.Second
)

// Server answers requests of the protocol.
type Server interface {
	Serve(ctx context.Context, r Request) (Response, error)
}

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
	// Open returns the server. It is nil in a binary that does not serve the route.
	Open func(api API) Server
}

// Request is a request. Its body is a message of the protocol, which the library of the protocol validates.
type Request struct {
	Header struct {
		Version string `json:"MCP-Protocol-Version,omitempty" jsonschema:"The version of the protocol that the client negotiated."`
		Method  string `json:"Mcp-Method,omitempty" jsonschema:"The method of the message, from version 2026-07-28."`
		Name    string `json:"Mcp-Name,omitempty" jsonschema:"The tool of the message, from version 2026-07-28."`
		Origin  string `json:"Origin,omitempty" jsonschema:"The origin of a web page. Only that of the API itself is accepted."`
	} `json:"header"`
	Body function.Verbatim `json:"body"`
}

// Example implements function.Exampler.
func (Request) Example() any {
	var in Request
	in.Body = function.Verbatim(`{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {` +
		`"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "assistant", "version": "1.0"}}}`)
	return in
}

// Response is what the server answered.
type Response struct {
	Status      int
	ContentType string
	Body        []byte
}

// Example implements function.Exampler.
func (Response) Example() any {
	return Response{Body: []byte(`{"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "2025-11-25", ` +
		`"capabilities": {"tools": {}}, "serverInfo": {"name": "agents", "title": "Hosted agents", "version": "1.0"}}}`)}
}

// Reply implements function.Reply.
func (a Response) Reply(http.Header) any {
	if a.ContentType == "" {
		a.ContentType = "application/json"
	}
	return function.Raw{ContentType: a.ContentType, Status: a.Status, Bytes: a.Body}
}

// Route serves the protocol. Its answers are complete: no stream stays open, and there are no sessions, so any instance
// serves any request.
//
// The guard does not authenticate the caller, because it would then count each call twice, as a change, and record it
// in the audit log. An invalid token is refused nevertheless: the API verifies it before the answer.
func Route(api API) function.Route {
	serve := notLinked
	if api.Open != nil {
		serve = api.Open(api).Serve
	}
	return function.Route{
		Name: "CallMCP", Method: http.MethodPost, Path: Path, Role: function.RoleAccounts, Access: function.Bearer,
		Status: http.StatusOK, Summary: "Call the Model Context Protocol", BodyLimit: BodyLimit,
		ResourceMetadata: api.resourceMetadata(), Holds: Timeout, TakesMessages: true, // notifications
		// Forbidden: a web page of another origin.
		Errors: []fault.Kind{fault.Forbidden}, Handle: function.Handle(serve),
	}
}

// resourceMetadata returns the address of the document that leads assistants to the identity provider.
func (a API) resourceMetadata() string {
	if a.BaseURL == "" {
		return ""
	}
	return a.BaseURL + "/.well-known/oauth-protected-resource" + Path
}

// notLinked serves the route in a binary without a server.
func notLinked(context.Context, Request) (Response, error) {
	return Response{}, errors.New("this binary does not link the Model Context Protocol")
}

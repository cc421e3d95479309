package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	apicall "agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/client"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
)

// call is one request of the protocol, with a client of the API for the caller.
type call struct {
	*client.Client
	// ctx is that of the request: a tool ends when its caller disconnects.
	ctx     context.Context
	service *service
	// caller names the token without revealing it.
	caller string
	// rehearsal is what the API answers to a rehearsal; nil if the tool's call is carried out.
	rehearsal *client.Rehearsal
	// list is the list of tools, if the library's answer leaves it out; see listOnce.
	list atomic.Pointer[[]byte]
	// sent is true once a request was sent to the API.
	sent atomic.Bool
	// What the API said about the token in any call so far.
	accepted, refused atomic.Bool
	// organizationID is what verify found out; empty for a caller without an organization.
	organizationID string
}

// maxOrganizations bounds the tokens whose organizations are known.
const maxOrganizations = 10_000

// organizations are those of tokens, which never change. It is safe for concurrent use.
type organizations struct {
	mu  sync.Mutex
	ids map[string]string
}

// of returns the organization of a token, if it is known.
func (o *organizations) of(caller string) (id string, known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	id, known = o.ids[caller]
	return id, known
}

// learn remembers the organization of a call that was verified. A token without one counts as one.
func (o *organizations) learn(c *call) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids == nil || len(o.ids) >= maxOrganizations {
		o.ids = map[string]string{}
	}
	o.ids[c.caller] = cmp.Or(c.organizationID, c.caller)
	return o.ids[c.caller]
}

type callKey struct{}

// callFrom returns the call that a tool belongs to.
func callFrom(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// verifyTimeout bounds how long a request of unknown origin waits for the verification of its token.
const verifyTimeout = 5 * time.Second

// maxUserAgent bounds the name of the caller's program in the audit log.
const maxUserAgent = 200

func (s *service) newCall(ctx context.Context) (*call, error) {
	if s.api.BaseURL == "" {
		return nil, fault.New(fault.Unavailable, "mcp_not_configured",
			"The operator has not configured the address of the API (API_BASE_URL), which the tools call.")
	}
	made := apicall.From(ctx)
	token := made.Token
	hash := sha256.Sum256([]byte(token))
	c := &call{ctx: ctx, service: s, caller: hex.EncodeToString(hash[:])}
	program := made.Request.UserAgent
	if program == "" {
		program = "unknown"
	}
	var err error
	// A failure is an answer that names the time to wait, because assistants decide better than a pause in here.
	c.Client, err = client.New(s.api.BaseURL, client.StaticToken(token), client.WithAttempts(1),
		client.WithUserAgent(program[:min(len(program), maxUserAgent)]+" mcp"),
		client.WithHTTPClient(&http.Client{Transport: forwarder{c}}))
	return c, err
}

// forwarder sends the calls of one request. It adds what the audit log and the limits of the API need to know of the
// caller, and remembers whether the API accepted the token.
type forwarder struct{ call *call }

// RoundTrip implements http.RoundTripper.
func (f forwarder) RoundTrip(req *http.Request) (*http.Response, error) {
	api, facts := f.call.service.api, apicall.From(f.call.ctx).Request
	f.call.sent.Store(true)
	req = req.Clone(req.Context())
	req.Header.Set("X-Request-Id", facts.RequestID)
	if api.Vouch != nil {
		api.Vouch(req.Header, facts.IP)
	}
	transport := api.Transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	switch {
	case res.StatusCode == http.StatusUnauthorized:
		f.call.refused.Store(true)
	case res.StatusCode != http.StatusTooManyRequests && res.StatusCode < http.StatusInternalServerError:
		f.call.accepted.Store(true)
	}
	return res, nil
}

// verify makes sure that the API accepts the token, and asks it unless a tool's call already showed that. Errors:
// Unauthenticated, RateLimited, Unavailable.
func (c *call) verify() error {
	switch {
	case c.refused.Load():
		return identity.InvalidToken()
	case c.accepted.Load():
		return nil
	}
	ctx, cancel := context.WithTimeout(c.ctx, verifyTimeout)
	defer cancel()
	me, err := c.GetMe(ctx)
	if err == nil {
		if me.Organization != nil {
			c.organizationID = me.Organization.ID
		}
		return nil
	}
	refusal := fault.New(fault.Unavailable, "api_unavailable", "The API does not answer. Retry.").WithCause(err)
	if e := client.AsError(err); e != nil {
		switch e.Status {
		case http.StatusUnauthorized:
			return identity.InvalidToken()
		case http.StatusTooManyRequests:
			refusal = fault.New(fault.RateLimited, "rate_limited", "%s", e.Detail)
		}
		refusal.RetryAfter = e.RetryAfter
	}
	return refusal
}

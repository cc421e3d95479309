// Package login signs the user of the command line tool in at the API's identity provider, and renews and ends such
// sessions. It does not store or send API keys.
//
// The API names its identity provider and the tool's OAuth client (RFC 9728). The user signs in with a browser, which
// returns to a listener on a loopback address (RFC 8252), or on another device (RFC 8628).
package login

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/oauth2"

	"agents.example/controlplane/functions/agentctl/profile"
)

const (
	defaultTimeout = 5 * time.Minute
	// requestTimeout bounds one request to the API or the identity provider.
	requestTimeout = 30 * time.Second
)

// Flow signs a user in.
type Flow struct {
	// HTTP sends the requests. Nil means the default client.
	HTTP *http.Client
	// Out gets what the user must read, such as the address to open.
	Out io.Writer
	// Open opens an address in the user's browser. If it is nil, the user opens it.
	Open func(address string) error
	// Port is the port of the loopback listener, for identity providers that only accept the exact redirect URI
	// http://127.0.0.1:PORT/callback. 0 means a free port, as RFC 8252 recommends.
	Port int
	// Timeout is how long the user may take. 0 means 5 minutes.
	Timeout time.Duration
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
}

// errTimeout is the cause of a context that Flow.Timeout ended.
var errTimeout = errors.New("the sign-in was not finished in time. Run: agentctl login")

// prepare returns a copy of the flow with its defaults, and the context of the whole flow.
func (f Flow) prepare(ctx context.Context) (Flow, context.Context, context.CancelFunc) {
	f.HTTP = withoutRedirects(f.HTTP)
	if f.Out == nil {
		f.Out = io.Discard
	}
	if f.Timeout <= 0 {
		f.Timeout = defaultTimeout
	}
	if f.Now == nil {
		f.Now = time.Now
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, f.HTTP)
	ctx, cancel := context.WithTimeoutCause(ctx, f.Timeout, errTimeout)
	return f, ctx, cancel
}

// withoutRedirects returns a client that follows no redirects, which could lead tokens elsewhere.
func withoutRedirects(h *http.Client) *http.Client {
	own := http.Client{}
	if h != nil {
		own = *h
	}
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if own.Timeout == 0 {
		own.Timeout = requestTimeout
	}
	return &own
}

// refusedError is a refusal of the identity provider (RFC 6749, section 5.2).
type refusedError struct{ code, description string }

// Error implements error.
func (e *refusedError) Error() string {
	if e.code == "expired_token" {
		return errTimeout.Error()
	}
	if e.code == "access_denied" {
		return "the sign-in was canceled. Run: agentctl login"
	}
	text := "the identity provider refused: " + e.code
	if e.description != "" {
		text += ": " + e.description
	}
	return text
}

// clarify turns an error of package oauth2 into one for people. It drops bodies, which may hold tokens.
func clarify(ctx context.Context, err error) error {
	var refused *oauth2.RetrieveError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused) && refused.ErrorCode != "" &&
		refused.Response.StatusCode < http.StatusInternalServerError:
		return &refusedError{code: oneLine(refused.ErrorCode), description: oneLine(refused.ErrorDescription)}
	case errors.As(err, &refused):
		return fmt.Errorf("the identity provider answered with the status %d. Retry later", refused.Response.StatusCode)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("the identity provider cannot be reached: %w", err)
}

// newProfile returns the profile of a user who signed in.
func (f Flow) newProfile(p provider, granted *oauth2.Token, nonce string) (profile.Profile, error) {
	identity, err := p.checkIdentity(granted, nonce, f.Now())
	if err != nil {
		return profile.Profile{}, err
	}
	s := profile.Session{
		Issuer: p.Issuer, ClientID: p.clientID, TokenURL: p.TokenEndpoint, RevocationURL: p.RevocationEndpoint,
		Subject: identity.Subject, Email: identity.Email,
	}
	if err := setTokens(&s, granted, f.Now()); err != nil {
		return profile.Profile{}, err
	}
	return profile.Profile{BaseURL: p.resource, Session: &s, Organization: identity.Organization.ID}, nil
}

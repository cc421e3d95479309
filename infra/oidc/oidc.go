// Package identity verifies tokens that others sign: the session tokens of the identity provider, and the tokens that
// Pub/Sub signs its pushes with. It knows JSON Web Tokens, where an issuer publishes its keys, and when to ask for them
// again. It does not know what a caller may do (shared/identity and shared/function) nor API keys (shared/apikey).
//
// A token is good only if everything about it is: a header, a signature, or a claim that two parsers could read
// differently is refused. Keys are found by the kid header among those that the issuer publishes and nowhere else; jku,
// jwk, x5u and x5c are never looked at.
package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
)

const (
	// DefaultLeeway is how far the issuer's clock may be from ours.
	DefaultLeeway = 30 * time.Second
	// cachedTokens bounds the memory of verified tokens, to some 5 MB.
	cachedTokens = 10_000
)

// Options say whose session tokens are good.
type Options struct {
	// Issuer is the identity provider's URL: the exact iss claim, and where its keys are discovered.
	Issuer string
	// AuthorizedParties are the origins of the web apps whose tokens are good (the azp claim). Empty allows any.
	AuthorizedParties []string
	// HTTPClient fetches the keys; nil is a client of its own. Without a time-out it gets one of 5 s.
	HTTPClient *http.Client
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Leeway is how far the issuer's clock may be from ours; 0 is DefaultLeeway.
	Leeway time.Duration
}

// Sessions verifies session tokens. It implements the port of the same name in shared/identity.
type Sessions struct {
	tokens *verifier[identity.Claims]
}

// New makes a verifier of session tokens. It asks the network for nothing: the keys are fetched with the first token.
// The error tells of options that cannot work.
func New(o Options) (*Sessions, error) {
	common := settings{Issuer: o.Issuer, HTTPClient: o.HTTPClient, Now: o.Now, Leeway: o.Leeway}
	v, err := newVerifier(common,
		func(c object) (identity.Claims, error) { return readSession(c, o.Issuer, o.AuthorizedParties) })
	if err != nil {
		return nil, fmt.Errorf("session tokens: %w", err)
	}
	return &Sessions{tokens: v}, nil
}

// Verify implements identity.Sessions.
func (s *Sessions) Verify(ctx context.Context, token string) (identity.Claims, error) {
	claims, err := s.tokens.verify(ctx, token)
	return claims, public(err)
}

// PushOptions say whose pushes are good.
type PushOptions struct {
	// Issuer signs the tokens: https://accounts.google.com for Cloud Pub/Sub.
	Issuer string
	// Audience is the exact aud claim, as the push subscription configures it.
	Audience string
	// ServiceAccount is the e-mail address of the account that the push subscription signs as.
	ServiceAccount string
	// HTTPClient, Now and Leeway are as in Options.
	HTTPClient *http.Client
	Now        func() time.Time
	Leeway     time.Duration
}

// Pushes verifies the tokens of Pub/Sub's pushes.
type Pushes struct {
	tokens *verifier[struct{}]
}

// NewPush makes a verifier of push tokens. Like New it asks the network for nothing yet.
func NewPush(o PushOptions) (*Pushes, error) {
	if o.Audience == "" || o.ServiceAccount == "" {
		return nil, errors.New("push tokens: the audience and the service account of the push subscription must be configured")
	}
	common := settings{Issuer: o.Issuer, HTTPClient: o.HTTPClient, Now: o.Now, Leeway: o.Leeway}
	v, err := newVerifier(common, func(c object) (struct{}, error) { return struct{}{}, checkPush(c, o) })
	if err != nil {
		return nil, fmt.Errorf("push tokens: %w", err)
	}
	return &Pushes{tokens: v}, nil
}

// Verify checks signature, issuer, audience and service account. Errors: Unauthenticated (invalid_token), Unavailable
// (identity_provider_unavailable) as for sessions.
func (p *Pushes) Verify(ctx context.Context, token string) error {
	_, err := p.tokens.verify(ctx, token)
	return public(err)
}

// public gives an error the one text that a caller may see. What was wrong with the token stays in the cause, for the
// log.
func public(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errUndecided):
		return fault.New(fault.Unavailable, "identity_provider_unavailable",
			"The identity provider can't be reached, so the token can't be verified yet. Try again.").WithCause(err)
	default:
		return identity.InvalidToken().WithCause(err)
	}
}

// settings is what every verifier needs.
type settings struct {
	Issuer     string
	HTTPClient *http.Client
	Now        func() time.Time
	Leeway     time.Duration
}

// complete checks the settings and fills in defaults.
func (s settings) complete() (settings, error) {
	u, err := url.Parse(s.Issuer)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") || u.RawQuery != "" ||
		u.Fragment != "" {
		return s, fmt.Errorf("the issuer %q is not an http(s) URL without query; configure the exact iss claim of its tokens", s.Issuer)
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.Leeway == 0 {
		s.Leeway = DefaultLeeway
	}
	client := http.Client{}
	if s.HTTPClient != nil {
		client = *s.HTTPClient // a copy: the caller's stays as it is
	}
	if client.Timeout == 0 {
		client.Timeout = requestTimeout
	}
	client.Transport = limited{next: client.Transport}
	s.HTTPClient = &client
	return s, nil
}

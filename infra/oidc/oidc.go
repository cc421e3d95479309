// Package oidc verifies OpenID Connect session tokens and the tokens of Pub/Sub pushes. It parses JSON Web Tokens,
// discovers where an issuer publishes its keys, and decides when to fetch them again. It does not decide what a caller
// may do (shared/identity and shared/function) and does not handle API keys (shared/apikey).
//
// A token whose header, signature or claims two parsers could read differently is refused. Keys come only from the set
// that the issuer publishes and are selected by the kid header. The headers jku, jwk, x5u and x5c are ignored.
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
	// DefaultLeeway is the tolerated difference between the issuer's clock and ours.
	DefaultLeeway = 30 * time.Second
	// cachedTokens bounds the cache of verified tokens to about 5 MB.
	cachedTokens = 10_000
)

// Options configure which session tokens are valid.
type Options struct {
	// Issuer is the identity provider's URL: the exact iss claim, and the base of the discovery document's URL.
	Issuer string
	// AuthorizedParties are the origins of the web apps whose tokens are valid (the azp claim). Empty allows any.
	AuthorizedParties []string
	// HTTPClient fetches the keys. Nil creates a client. A client without a timeout gets one of 5 s.
	HTTPClient *http.Client
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
	// Leeway is the tolerated difference between the issuer's clock and ours. 0 means DefaultLeeway.
	Leeway time.Duration
}

// Sessions verifies session tokens. It implements identity.Sessions.
type Sessions struct {
	tokens *verifier[identity.Claims]
}

// NewSessions creates a verifier of session tokens. It makes no network request: the first token triggers the first
// fetch of the keys. An error means that the options are invalid.
func NewSessions(o Options) (*Sessions, error) {
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
	return claims, publicError(err)
}

// PushOptions configure which pushes are valid.
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

// Pushes verifies the tokens of Pub/Sub pushes.
type Pushes struct {
	tokens *verifier[struct{}]
}

// NewPushes creates a verifier of push tokens. Like New, it makes no network request.
func NewPushes(o PushOptions) (*Pushes, error) {
	if o.Audience == "" || o.ServiceAccount == "" {
		return nil, errors.New("push tokens: configure the audience and the service account of the push subscription")
	}
	common := settings{Issuer: o.Issuer, HTTPClient: o.HTTPClient, Now: o.Now, Leeway: o.Leeway}
	v, err := newVerifier(common, func(c object) (struct{}, error) { return struct{}{}, checkPush(c, o) })
	if err != nil {
		return nil, fmt.Errorf("push tokens: %w", err)
	}
	return &Pushes{tokens: v}, nil
}

// Verify checks the signature, the issuer, the audience and the service account. Errors: Unauthenticated
// (invalid_token), Unavailable (identity_provider_unavailable).
func (p *Pushes) Verify(ctx context.Context, token string) error {
	_, err := p.tokens.verify(ctx, token)
	return publicError(err)
}

// publicError replaces an error with the only text that a caller may see. The reason stays in the cause, for the log.
func publicError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errUndecided):
		return fault.New(fault.Unavailable, "identity_provider_unavailable",
			"The identity provider is temporarily unavailable, so the token cannot be verified. Retry.").WithCause(err)
	default:
		return identity.InvalidToken().WithCause(err)
	}
}

// settings are the options that all verifiers share.
type settings struct {
	Issuer     string
	HTTPClient *http.Client
	Now        func() time.Time
	Leeway     time.Duration
}

// withDefaults validates the settings and fills in defaults.
func (s settings) withDefaults() (settings, error) {
	u, err := url.Parse(s.Issuer)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") || u.RawQuery != "" ||
		u.Fragment != "" {
		return s, fmt.Errorf("issuer %q is not an http(s) URL without a query; configure the exact iss claim of its "+
			"tokens",
			s.Issuer)
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.Leeway == 0 {
		s.Leeway = DefaultLeeway
	}
	client := http.Client{}
	if s.HTTPClient != nil {
		client = *s.HTTPClient // a copy, because the caller's client must not change
	}
	if client.Timeout == 0 {
		client.Timeout = requestTimeout
	}
	client.Transport = limitedTransport{next: client.Transport}
	s.HTTPClient = &client
	return s, nil
}

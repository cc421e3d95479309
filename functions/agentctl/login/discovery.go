package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/oauth2"
)

// maxDocument bounds a discovery document.
const maxDocument = 1 << 20

// ErrNoSignIn is the error of an API that accepts API keys only.
var ErrNoSignIn = errors.New("this API offers no sign-in to agentctl. Use an API key: create one in the console, and " +
	"set AGENTS_API_KEY")

// resource is what an API says about its identity provider (RFC 9728).
type resource struct {
	Resource string   `json:"resource"`
	Issuers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
	// ClientID is the OAuth client of this tool; empty if the API has none.
	ClientID string `json:"agentctl_client_id"`
}

// provider is what an identity provider says about itself (OpenID Connect Discovery 1.0), and how to use it for an API.
type provider struct {
	Issuer                string   `json:"issuer"`
	AuthorizationEndpoint string   `json:"authorization_endpoint"`
	TokenEndpoint         string   `json:"token_endpoint"`
	DeviceEndpoint        string   `json:"device_authorization_endpoint"`
	RevocationEndpoint    string   `json:"revocation_endpoint"`
	ChallengeMethods      []string `json:"code_challenge_methods_supported"`
	// SendsIssuer is whether the parameter iss is in every answer (RFC 9207).
	SendsIssuer bool `json:"authorization_response_iss_parameter_supported"`

	resource, clientID string
	scopes             []string
}

// discover returns the identity provider of the API at a base URL.
func (f Flow) discover(ctx context.Context, baseURL string) (provider, error) {
	base := strings.TrimRight(baseURL, "/")
	if err := checkSecure("the API's base URL", base); err != nil {
		return provider{}, err
	}
	r, err := f.describeAPI(ctx, base)
	if err != nil {
		return provider{}, err
	}
	issuer := r.Issuers[0]
	if err := checkSecure("the address of the identity provider", issuer); err != nil {
		return provider{}, err
	}
	p := provider{resource: base, clientID: r.ClientID, scopes: r.Scopes}
	status, err := f.fetch(ctx, strings.TrimRight(issuer, "/")+"/.well-known/openid-configuration", &p)
	if err != nil {
		return provider{}, fmt.Errorf("the identity provider %s does not describe itself: %w", issuer, err)
	}
	if status != http.StatusOK {
		return provider{}, fmt.Errorf("the identity provider %s answered with the status %d. Retry later", issuer,
			status)
	}
	return p, p.check(issuer)
}

// describeAPI fetches what the API says about itself.
func (f Flow) describeAPI(ctx context.Context, base string) (resource, error) {
	var r resource
	status, err := f.fetch(ctx, base+"/.well-known/oauth-protected-resource", &r)
	switch {
	case err != nil:
		return r, fmt.Errorf("the API at %s cannot be reached: %w", base, err)
	case status == http.StatusNotFound:
		return r, ErrNoSignIn
	case status != http.StatusOK:
		return r, fmt.Errorf("the API at %s answered with the status %d. Check the address, or retry later", base,
			status)
	case strings.TrimRight(r.Resource, "/") != base: // a copy of the document must not vouch for another API
		return r, fmt.Errorf("the API at %s names itself %q. Run: agentctl login --base-url with that address", base,
			r.Resource)
	case r.ClientID == "" || len(r.Issuers) == 0:
		return r, ErrNoSignIn
	}
	return r, nil
}

// check checks that the document is that of the issuer, and that tokens only travel encrypted.
func (p provider) check(issuer string) error {
	if p.Issuer != issuer {
		return fmt.Errorf("the identity provider %s names itself %q, so it cannot be trusted", issuer, p.Issuer)
	}
	if len(p.ChallengeMethods) > 0 && !slices.Contains(p.ChallengeMethods, "S256") {
		return fmt.Errorf("the identity provider %s does not support PKCE with S256, which agentctl needs", issuer)
	}
	if p.TokenEndpoint == "" {
		return fmt.Errorf("the identity provider %s has no token endpoint", issuer)
	}
	for name, address := range map[string]string{
		"authorization_endpoint": p.AuthorizationEndpoint, "token_endpoint": p.TokenEndpoint,
		"device_authorization_endpoint": p.DeviceEndpoint, "revocation_endpoint": p.RevocationEndpoint,
	} {
		if address == "" {
			continue
		}
		if err := checkSecure("the identity provider's "+name, address); err != nil {
			return err
		}
	}
	return nil
}

// config returns the client's configuration. The style is fixed, because oauth2 would try styles with a code, which
// works once.
func (p provider) config(redirectURI string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.clientID, RedirectURL: redirectURI, Scopes: p.scopes,
		Endpoint: oauth2.Endpoint{
			AuthURL: p.AuthorizationEndpoint, TokenURL: p.TokenEndpoint, DeviceAuthURL: p.DeviceEndpoint,
			AuthStyle: oauth2.AuthStyleInParams,
		},
	}
}

// fetch reads a JSON document. A status other than 200 leaves to unchanged.
func (f Flow) fetch(ctx context.Context, address string, to any) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Accept", "application/json")
	res, err := f.HTTP.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return 0, err
	}
	defer res.Body.Close() //nolint:errcheck // the answer was read
	b, err := io.ReadAll(io.LimitReader(res.Body, maxDocument))
	if err != nil || res.StatusCode != http.StatusOK {
		return res.StatusCode, err
	}
	if err := json.Unmarshal(b, to); err != nil {
		return res.StatusCode, fmt.Errorf("%s is not the expected document: %w", address, err)
	}
	return res.StatusCode, nil
}

// checkSecure refuses addresses to which tokens would travel in the clear. Loopback addresses are for development.
func checkSecure(what, address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return fmt.Errorf("%s must look like https://api.example.com, not %q", what, address)
	}
	if u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname()) {
		return nil
	}
	return fmt.Errorf("%s must use https: %s", what, address)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

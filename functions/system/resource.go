package system

import (
	"context"
	"net/http"
	"strings"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
)

// SignIn is how clients get tokens for the API. All of it is public.
type SignIn struct {
	// BaseURL is the address of the API for its clients. It comes from the configuration and never from a request,
	// because clients send tokens to the address that they read here.
	BaseURL string
	// Issuer is the URL of the identity provider.
	Issuer string
	// ClientID is the OAuth client of the command line tool; empty if it is not registered.
	ClientID string
	// Scopes are those to ask the identity provider for, separated by spaces.
	Scopes string
}

// ProtectedResource is the response that names the identity provider of the API, OAuth 2.0 Protected Resource Metadata.
type ProtectedResource struct {
	Resource             string   `json:"resource" jsonschema:"Address of the API."`
	AuthorizationServers []string `json:"authorization_servers" jsonschema:"Issuers of the accepted session tokens."`
	BearerMethods        []string `json:"bearer_methods_supported" jsonschema:"How to send a token."`
	Scopes               []string `json:"scopes_supported" jsonschema:"Scopes to ask an issuer for."`
	Documentation        string   `json:"resource_documentation" jsonschema:"Page for developers."`
	ClientID             string   `json:"agentctl_client_id,omitempty" jsonschema:"OAuth client of the command line tool. Absent if the tool accepts API keys only."`
}

// Example implements function.Exampler.
func (ProtectedResource) Example() any {
	return SignIn{
		BaseURL: "https://api.example.com", Issuer: "https://clerk.example.com", ClientID: "agentctl",
		Scopes: "openid profile email offline_access",
	}.describe("")
}

// resourceCaching lets clients and proxies cache the document for five minutes.
const resourceCaching = "public, max-age=300"

// Reply implements function.Reply.
func (p ProtectedResource) Reply(h http.Header) any {
	h.Set("Cache-Control", resourceCaching)
	return p
}

// describe returns the document of the resource at a path of the API.
func (s SignIn) describe(path string) ProtectedResource {
	return ProtectedResource{
		Resource: s.BaseURL + path, AuthorizationServers: []string{s.Issuer}, BearerMethods: []string{"header"},
		Scopes: strings.Fields(s.Scopes), Documentation: s.BaseURL + "/docs", ClientID: s.ClientID,
	}
}

// ProtectedResources publishes how clients sign in to the API, and to its endpoint for assistants (RFC 9728). The path
// of a resource follows the well-known one.
func ProtectedResources(s SignIn) []function.Route {
	const wellKnown = "/.well-known/oauth-protected-resource"
	routes := []function.Route{
		{Name: "GetProtectedResource", Path: wellKnown, Summary: "Get how to sign in"},
		{Name: "GetMCPProtectedResource", Path: wellKnown + "/mcp", Summary: "Get how assistants sign in"},
	}
	for i := range routes {
		r := &routes[i]
		r.Method, r.Access, r.Status = http.MethodGet, function.Public, http.StatusOK
		r.Errors = []fault.Kind{fault.NotFound}
		path := strings.TrimPrefix(r.Path, wellKnown)
		r.Handle = function.Handle(func(context.Context, function.Empty) (ProtectedResource, error) {
			if s.BaseURL == "" {
				return ProtectedResource{}, fault.New(fault.NotFound, "not_found",
					"The address of this API is not configured (API_BASE_URL). Use an API key.")
			}
			return s.describe(path), nil
		})
	}
	return routes
}

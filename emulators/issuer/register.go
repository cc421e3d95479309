package issuer

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

const (
	// maxRegistered is how many clients can be registered; another one takes the place of the oldest.
	maxRegistered   = 100
	maxRedirectURIs = 10
	maxRedirectURI  = 2000
	maxClientName   = 100
)

// registered holds the clients that registered themselves. Its methods are safe for concurrent use.
type registered struct {
	mu      sync.Mutex
	clients []Client
}

func (r *registered) find(id string) (Client, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := slices.IndexFunc(r.clients, func(c Client) bool { return c.ID == id })
	if n < 0 {
		return Client{}, false
	}
	return r.clients[n], true
}

func (r *registered) add(c Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.clients) == maxRegistered {
		r.clients = slices.Delete(r.clients, 0, 1)
	}
	r.clients = append(r.clients, c)
}

// registration is what an application says of itself (RFC 7591, section 2). Members that it does not have are ignored,
// as the standard demands.
type registration struct {
	RedirectURIs []string `json:"redirect_uris"`
	Name         string   `json:"client_name"`
	AuthMethod   string   `json:"token_endpoint_auth_method"`
}

// register gives an application that the configuration does not name a client id, as assistants expect it (RFC 7591).
func (i *Issuer) register(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxTokenRequest)
	w.Header().Set("Cache-Control", "no-store")
	var asked registration
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil { // it may have more members
		respondRefusal(w, refuse("invalid_client_metadata", "The body is not a JSON object of at most 64 KiB."))
		return
	}
	if err := asked.check(); err != nil {
		respondRefusal(w, err)
		return
	}
	c := Client{
		ID: "client_" + rand.Text(), RedirectURIs: asked.RedirectURIs, registered: true,
		name: asked.Name[:min(len(asked.Name), maxClientName)],
	}
	i.registered.add(c)
	respond(w, http.StatusCreated, map[string]any{
		"client_id": c.ID, "client_id_issued_at": i.options.Now().Unix(), "client_name": c.name,
		"redirect_uris": c.RedirectURIs, "token_endpoint_auth_method": "none",
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
	})
}

func (r registration) check() error {
	if r.AuthMethod != "" && r.AuthMethod != "none" {
		return refuse("invalid_client_metadata", "token_endpoint_auth_method must be none: clients have no secret.")
	}
	if n := len(r.RedirectURIs); n == 0 || n > maxRedirectURIs {
		return refuse("invalid_redirect_uri", "redirect_uris must have 1 to 10 addresses.")
	}
	for _, uri := range r.RedirectURIs {
		if !mayRegister(uri) {
			return refuse("invalid_redirect_uri", "A redirect URI must be an https URL, an http URL of this machine, "+
				"or one with a scheme of the application, without a fragment.")
		}
	}
	return nil
}

// mayRegister reports whether an application may register a redirect URI (RFC 8252, section 7).
func mayRegister(uri string) bool {
	u, err := url.Parse(uri)
	if err != nil || len(uri) > maxRedirectURI || strings.Contains(uri, "#") || u.User != nil {
		return false
	}
	switch u.Scheme {
	case "https":
		return u.Host != ""
	case "http":
		return isLoopback(uri)
	case "", "about", "blob", "data", "file", "javascript", "vbscript":
		return false
	}
	return true
}

// isRegisteredAs reports whether a redirect URI is a registered one. The port of a loopback address may differ: the
// application takes a free one (RFC 8252, section 7.3).
func isRegisteredAs(uri, registered string) bool {
	return uri == registered || isLoopback(registered) && isLoopback(uri) && withoutPort(uri) == withoutPort(registered)
}

// withoutPort returns a URL without its port, to compare it with others.
func withoutPort(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	u.Host = u.Hostname()
	return u.String()
}

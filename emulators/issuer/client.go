package issuer

import (
	"cmp"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Client is an application that may sign users in. It is public: it has no secret.
type Client struct {
	ID string
	// RedirectURIs are the redirect URIs, in addition to those of loopback addresses.
	RedirectURIs []string
	// LoopbackPath makes it a native application (RFC 8252, section 7.3): it accepts http URLs of loopback IP addresses
	// with this path and any port. If empty, every http URL of a loopback address is accepted.
	LoopbackPath string

	// registered is true for a client that registered itself. It returns to its redirect URIs only, and its users
	// are asked each time.
	registered bool
	name       string
}

const (
	// DefaultClientID is the client of the web console.
	DefaultClientID = "console"
	// CLIClientID is the client of agentctl, the command line tool.
	CLIClientID = "agentctl"
)

// defaultClients are those of the control plane.
func defaultClients() []Client {
	return []Client{{ID: DefaultClientID}, {ID: CLIClientID, LoopbackPath: "/callback"}}
}

// client returns the client with an ID.
func (i *Issuer) client(id string) (Client, bool) {
	n := slices.IndexFunc(i.options.Clients, func(c Client) bool { return c.ID == id })
	if n < 0 {
		return i.registered.find(id)
	}
	return i.options.Clients[n], true
}

// clientNames lists the clients for a message.
func (i *Issuer) clientNames() string {
	var names []string
	for _, c := range i.options.Clients {
		names = append(names, "“"+c.ID+"”")
	}
	return strings.Join(names, " or ")
}

// redirects says in a sentence which redirect URIs the client has.
func (c Client) redirects() string {
	if c.registered {
		return "Sign-in only continues at the addresses that the application registered."
	}
	return "Sign-in only continues at an http address of this machine, such as http://127.0.0.1:8080" +
		cmp.Or(c.LoopbackPath, "/console") + "."
}

// mayRedirect reports whether a redirect URI is one of the client.
func (c Client) mayRedirect(uri string) bool {
	if c.registered {
		return slices.ContainsFunc(c.RedirectURIs, func(known string) bool { return isRegisteredAs(uri, known) })
	}
	if slices.Contains(c.RedirectURIs, uri) {
		return true
	}
	if !strings.HasPrefix(uri, "http://") || strings.Contains(uri, "#") || !isLoopback(uri) {
		return false
	}
	if c.LoopbackPath == "" {
		return true
	}
	u, err := url.Parse(uri)
	if err != nil || u.Path != c.LoopbackPath || u.RawQuery != "" {
		return false
	}
	_, err = netip.ParseAddr(u.Hostname())
	return err == nil
}

// mayRedirect reports whether a redirect URI is one of any client that was not registered by itself.
func (i *Issuer) mayRedirect(uri string) bool {
	return slices.ContainsFunc(i.options.Clients, func(c Client) bool { return c.mayRedirect(uri) })
}

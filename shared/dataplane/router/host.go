package router

import (
	"maps"
	"slices"
	"strings"

	"agents.example/controlplane/shared/agent"
)

// isCellHost reports whether a host is the cell's domain or below it.
func (r *Router) isCellHost(host string) bool {
	rest, ok := strings.CutSuffix(strings.TrimSuffix(host, "."), r.domain)
	return ok && (rest == "" || strings.HasSuffix(rest, "."))
}

// splitHost returns a request's host in lower case, and its port with the colon. Both are empty if the host is not a
// name: an IPv6 address, or a name with an invalid port.
func splitHost(raw string) (host, port string) {
	host = raw
	if i := strings.IndexByte(raw, ':'); i >= 0 {
		host, port = raw[:i], raw[i:]
		if !isPort(port[1:]) {
			return "", ""
		}
	}
	return strings.ToLower(host), port
}

func isPort(s string) bool {
	if s == "" || len(s) > len("65535") {
		return false
	}
	return strings.Trim(s, "0123456789") == ""
}

// find returns the route to the agent that a host names, and nil if there is no such agent.
func (r *Router) find(host string) (*route, Endpoint) {
	r.mu.RLock()
	a := r.routes[host]
	r.mu.RUnlock()
	if a != nil {
		endpoint := r.endpoints.Lookup(a.namespace)
		if endpoint.State == Unknown {
			return nil, endpoint
		}
		return a, endpoint
	}
	id, ok := agent.IDFromHostname(host, r.domain)
	if !ok || !isPlain(host) {
		return nil, Endpoint{}
	}
	namespace := agent.Namespace(id)
	endpoint := r.endpoints.Lookup(namespace)
	if endpoint.State == Unknown {
		return nil, endpoint
	}
	// A client must not reach an agent under names that are not its own: a page on such a name would look like another
	// agent's, and each name would be another time series.
	if slug := host[:strings.LastIndexByte(host[:len(host)-len(r.domain)], '-')]; endpoint.Slug == "" {
		host = namespace
	} else if slug != endpoint.Slug {
		return nil, Endpoint{}
	}
	return r.addRoute(host, namespace), endpoint
}

// isPlain reports whether a host consists of the characters of our hostnames.
func isPlain(host string) bool {
	for i := range len(host) {
		c := host[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			return false
		}
	}
	return true
}

// addRoute returns the route to an agent. Routes exist only for agents that exist, so clients cannot fill the table.
func (r *Router) addRoute(host, namespace string) *route {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.routes[host]; a != nil {
		return a
	}
	if len(r.routes) >= r.sweepAt {
		r.sweepLocked()
		r.sweepAt = 2*len(r.routes) + minSweep
	}
	a := newRoute(r, host, namespace)
	r.routes[host] = a
	return a
}

// sweep drops the routes of agents that are gone, and the time series of those that are gone or do not run.
func (r *Router) sweep() {
	r.mu.Lock()
	r.sweepLocked()
	routes := slices.Collect(maps.Values(r.routes))
	r.mu.Unlock()
	for _, a := range routes {
		a.noteScrape(r.endpoints.Lookup(a.namespace).State == Ready)
	}
}

func (r *Router) sweepLocked() {
	for host, a := range r.routes {
		if r.endpoints.Lookup(a.namespace).State == Unknown {
			delete(r.routes, host)
			a.forget()
		}
	}
}

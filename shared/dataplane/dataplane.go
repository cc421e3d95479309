// Package dataplane holds the ports, paths and variables that the router, the front and the pods of agents share. It
// imports no package of ours, so that a binary of the data plane links no code of the control plane because of it.
package dataplane

import (
	"fmt"
	"path"
	"strings"
	"time"
)

// Ports of the data plane.
const (
	// FrontPort is the port on which the front of every agent listens, and the router's.
	FrontPort = 8080
	// MetricsPort is the port of the router's metrics.
	MetricsPort = 9090
	// FrontMetricsPort is the port of the front's metrics. It is open in sandboxed pods only, whose use of resources
	// the node cannot measure.
	FrontMetricsPort = 9091
	// DefaultAgentPort is the agent container's $PORT if the operator configures none.
	DefaultAgentPort = 3000
)

// LabelSlug is the label of an agent's Service, and of its EndpointSlices, with the readable part of the agent's
// hostname. The router accepts no other.
const LabelSlug = "agents.example/slug"

// Paths that the front serves itself. It forwards all others to the agent's container.
const (
	// PathReady answers 200 when the agent's container serves.
	PathReady = "/health/ready"
	// PathAuthCheck answers 204 to the present credentials and 401 to others.
	PathAuthCheck = "/auth/check"
	// PathHandoff opens the dashboard for the bearer of a link.
	PathHandoff = "/handoff"
	// PathLogout ends the session of a browser. A request without a session is the container's.
	PathLogout = "/logout"
)

// Paths of the control plane that the front calls.
const (
	// PathKeys has the keys that sign links.
	PathKeys = "/.well-known/jwks.json"
	// PathIntrospect tells whether the session of a link goes on.
	PathIntrospect = "/api/v1/handoff/introspect"
)

// FlushInterval is how long the router and the front may hold a part of an answer whose length is known. Most of these
// are complete by then, and need one write. Events, and answers of unknown length, pass immediately.
const FlushInterval = 20 * time.Millisecond

// SessionTime is how long the session that a link starts goes on. Another link renews it.
const SessionTime = time.Hour

// Variables of the front. The pod template sets them.
const (
	EnvListenHost        = "LISTEN_HOST"        // the pod's address
	EnvAgentPort         = "AGENT_PORT"         // the agent container's $PORT
	EnvAgentAPIPort      = "AGENT_API_PORT"     // the port of /v1, if it is not $PORT
	EnvAgentHealthPath   = "AGENT_HEALTH_PATH"  // if empty, a container that accepts a connection is ready
	EnvAgentAuth         = "AGENT_AUTH"         // AuthFront or AuthImage
	EnvAgentHostname     = "AGENT_HOSTNAME"     // the audience of links
	EnvJWKSURL           = "JWKS_URL"           // the keys that sign links
	EnvDashboardUsername = "DASHBOARD_USERNAME" // credentials of the dashboard
	EnvDashboardPassword = "DASHBOARD_PASSWORD"
	EnvAPIKey            = "API_SERVER_KEY" // credential of /v1
	EnvFrontMetrics      = "FRONT_METRICS"  // "true": serve metrics on FrontMetricsPort
)

// EnvPort tells the agent's container on which port to listen.
const EnvPort = "PORT"

// Who checks the credentials of requests to an agent.
const (
	// AuthFront means that the front checks them and the agent's container never sees them.
	AuthFront = "front"
	// AuthImage means that the front forwards them to the agent's container, too, which knows them from its
	// environment and checks them itself.
	AuthImage = "image"
)

// TargetRefused tells the client of a request whose target IsPath denies what to send.
const TargetRefused = "The target of a request must be a path, such as /v1/models."

// IsPath reports whether the target of a request is a path, as http.Request.RequestURI has it. Others must be refused
// before a rule looks at the path: that of http:v1/models is empty, and a proxy would forward what follows the colon.
func IsPath(target string) bool { return target != "" && target[0] == '/' }

// maxPublicPathBytes bounds a public path.
const maxPublicPathBytes = 256

// CheckPublicPath returns what is wrong with a path that anyone may request: one that ends with a slash stands for
// everything below it, another one for itself. What the front serves, and /v1, need their credentials always.
func CheckPublicPath(p string) error {
	clean := path.Clean(p)
	if !strings.HasPrefix(p, "/") || p == "/" || clean != strings.TrimSuffix(p, "/") || len(p) > maxPublicPathBytes ||
		strings.ContainsFunc(p, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`%?#*\,`, r) }) {
		return fmt.Errorf(`%q: want a path such as /webhook, or /hooks/ for all below it, of at most %d printable `+
			`characters other than %%?#*\,`, p, maxPublicPathBytes)
	}
	for _, own := range [...]string{"/auth", PathHandoff, "/health", PathLogout, "/v1"} {
		if first, _, _ := strings.Cut(clean[1:], "/"); strings.EqualFold("/"+first, own) {
			return fmt.Errorf("%q: requests below %s always need their credentials", p, own)
		}
	}
	return nil
}

// Package dataplane holds the ports, paths and variables that the router, the front and the pods of agents share. It
// imports no package of ours, so that a binary of the data plane links no code of the control plane because of it.
package dataplane

import (
	"errors"
	"fmt"
	"net/url"
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

// The gate's pods, which agents with a list of names connect to instead of the internet.
const (
	// GateName is the name of the gate's pods and Service.
	GateName = "agent-gate"
	// GateDNSPort, GateHTTPPort and GateTLSPort are where they listen. Their Service has the ports 53, 80 and 443.
	GateDNSPort  = 5353
	GateHTTPPort = 8081
	GateTLSPort  = 8443
	// GateAddress is the address of the Service, unless an operator chooses another one: one of those that GKE gives to
	// no Service by itself.
	GateAddress = "34.118.224.53"
	// PathGateCA is where the gate has the certificate of an agent's CA, and QueryGatePolicy the part of the query that
	// says for which policy.
	PathGateCA      = "/.well-known/agents/ca"
	QueryGatePolicy = "policy"
)

// LabelSlug is the label of an agent's Service, and of its EndpointSlices, with the readable part of the agent's
// hostname. The router accepts no other.
const LabelSlug = "agents.example/slug"

// LabelStarter is the label of an agent's Service, and of its EndpointSlices, that says who starts an agent without a
// pod. Without it, the agent has a pod or is about to get one.
const (
	LabelStarter   = "agents.example/starter"
	StarterOwner   = "owner"   // nothing but its owner's call, or a payment
	StarterRequest = "request" // any request that may wake it: the agent sleeps while it is idle
)

// LabelOrganization is the label with the organization of an agent.
const LabelOrganization = "agents.example/organization-id"

// Paths that the front serves itself. It forwards all others to the agent's container.
const (
	// PathReady answers 200 when the agent's container serves.
	PathReady = "/health/ready"
	// PathDashboard answers 204 when the agent's container serves, with HeaderDashboardStatus.
	PathDashboard = "/health/dashboard"
	// PathDoor answers whether the front's door is closed: see HeaderDoor.
	PathDoor = "/health/door"
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
	// PathSleep asks for an agent to sleep. %s is the agent's id.
	PathSleep = "/api/v1/agents/%s/sleep"
)

// An agent that is idle falls asleep in these steps. Its front closes its door: from then on it refuses every request
// unread, with HeaderDoor, and the router holds what it refuses. The front reports to the control plane, which records
// that the agent sleeps. A worker asks the front once more whether that door is still closed, and takes the pod away.
// The front opens its door if the control plane refuses, or after DoorTime: a control plane that is away must not keep
// users out of an agent that runs.
const (
	// HeaderDoor has the name of the closed door, and HeaderDoorTime for how many more seconds it stays closed. An
	// answer of PathDoor without them means that the door is open.
	HeaderDoor     = "X-Agent-Door"
	HeaderDoorTime = "X-Agent-Door-Seconds"
	DoorTime       = 15 * time.Second
	// DoorMargin is how much of DoorTime must be left for a worker to take the pod away.
	DoorMargin = 5 * time.Second
)

// BusyFile is the file on its volume with which a container says that it must not sleep.
const BusyFile = ".busy"

// HeaderDashboardStatus has the status with which the agent's container answers GET / to a user of the dashboard.
const HeaderDashboardStatus = "X-Agent-Dashboard-Status"

// HeaderPublic is in the front's answers to requests that needed no credential. The router removes it: such an answer
// does not show that the agent accepts the client.
const HeaderPublic = "X-Agent-Public"

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
	EnvAgentPublicPaths  = "AGENT_PUBLIC_PATHS" // that need no credential, separated by commas
	EnvAgentHostname     = "AGENT_HOSTNAME"     // the audience of links
	EnvAgentSleepAfter   = "AGENT_SLEEP_AFTER"  // seconds without a request; not set for an agent that never sleeps
	EnvAgentBusyPath     = "AGENT_BUSY_PATH"    // on which the container says that it is busy; see the front
	EnvAgentDataDir      = "DATA_DIR"           // where the front finds BusyFile
	EnvJWKSURL           = "JWKS_URL"           // the keys that sign links
	EnvDashboardUsername = "DASHBOARD_USERNAME" // credentials of the dashboard
	EnvDashboardPassword = "DASHBOARD_PASSWORD"
	EnvAPIKey            = "API_SERVER_KEY" // credential of /v1
	EnvFrontMetrics      = "FRONT_METRICS"  // "true": serve metrics on FrontMetricsPort
)

// Variables of TrustArg.
const (
	EnvCAURL  = "EGRESS_CA_URL"  // of the certificate of the agent's CA
	EnvCAFile = "EGRESS_CA_FILE" // for the certificates that the agent trusts
)

// CADir is where a container finds CAFile, the certificates that it trusts in place of the system's.
const (
	CADir  = "/run/agents"
	CAFile = CADir + "/ca-bundle.pem"
)

// CAVariables are the variables with which programs find CAFile: those of Node.js, of OpenSSL and so Python's ssl and
// Go, of Python's requests, of curl, Git and Deno.
func CAVariables() []string {
	return []string{
		"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "DENO_CERT",
	}
}

// Variables of the agent's container. The pod template sets them, unless the agent has a variable of the same name from
// a time when the name was not reserved.
const (
	EnvPort         = "PORT" // on which the container listens
	EnvAgentID      = "AGENT_ID"
	EnvAgentName    = "AGENT_NAME"         // as it was when the pod was made
	EnvAgentURL     = "AGENT_URL"          // of the dashboard
	EnvAgentPlan    = "AGENT_PLAN"         // the id of the plan
	EnvAgentMemory  = "AGENT_MEMORY_BYTES" // the memory limit of the container
	EnvAgentConfig  = "AGENT_CONFIG_FILE"  // has the client's config as JSON; not set without a config
	EnvAgentCloneOf = "AGENT_CLONE_OF"     // the id of the agent that it is a clone of; not set for one that is none
	EnvHome         = "HOME"
	EnvDataDir      = "DATA_DIR" // of SeedArg: the agent's volume
	EnvSeedDir      = "SEED_DIR" // of SeedArg: the files for it
	DefaultDataPath = "/data"    // where an agent's volume is mounted
	ConfigPath      = "/config"  // where its files are that are not on the volume
	ConfigFile      = "agent.json"
	ConfigFilePath  = ConfigPath + "/" + ConfigFile
	SeedArg         = "seed"   // makes the front's program write files to the volume and end
	WaitArg         = "wait"   // makes it wait, so that commands can run next to a volume
	ExportArg       = "export" // makes it write an archive of the volume; the input is the manifest
	ImportArg       = "import" // makes it fill the volume from an archive, and end
	TrustArg        = "trust"  // makes it write CAFile, and end
)

// FrontCommand is the path of the front's program in the platform's image.
const FrontCommand = "/ko-app/front"

// Variables of ImportArg.
const (
	EnvImportURL      = "AGENT_IMPORT_URL"      // of the archive; a secret, because it may be signed
	EnvImportBytes    = "IMPORT_MAX_BYTES"      // of the files in the archive
	EnvImportLoopback = "IMPORT_ALLOW_LOOPBACK" // "true": the archive may be on this machine; for local development
	EnvImportGate     = "EGRESS_GATE"           // address of the agent's only way out; not set for an agent without one
)

// OwnVariables are the variables with which a container knows itself. Neither clients nor images can set them.
func OwnVariables() []string {
	return []string{
		EnvAgentID, EnvAgentName, EnvAgentURL, EnvAgentHostname, EnvAgentPlan, EnvAgentMemory, EnvAgentConfig,
		EnvAgentCloneOf,
	}
}

// CredentialVariables have the credentials of the agent's dashboard and API.
func CredentialVariables() []string {
	return []string{EnvAPIKey, EnvDashboardPassword, EnvDashboardUsername}
}

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

// MaxPublicPathBytes bounds a public path.
const MaxPublicPathBytes = 256

// CheckPublicPath returns what is wrong with a path that anyone may request: one that ends with a slash stands for
// everything below it, another one for itself. What the front serves, and /v1, need their credentials always.
func CheckPublicPath(p string) error {
	if p == "/" || !isPlainPath(p) {
		return fmt.Errorf(`%q: want a path such as /webhook, or /hooks/ for all below it, of at most %d characters that `+
			`need no escape and are none of %%?#*\,;`, p, MaxPublicPathBytes)
	}
	if isBelow(p, "/v1") || isFrontPath(p) {
		return fmt.Errorf("%q: requests below %s always need their credentials", p, firstSegment(p))
	}
	return nil
}

// CheckCallPath returns what is wrong with a path of an agent's container that a schedule calls.
func CheckCallPath(p string) error {
	switch {
	case !isPlainPath(p):
		return fmt.Errorf(`want a path such as /v1/chat/completions, of at most %d characters that need no escape and `+
			`are none of %%?#*\,;`, MaxPublicPathBytes)
	case isFrontPath(p):
		return fmt.Errorf("the agent's container does not get the requests below %s", firstSegment(p))
	case isBelow(p, "/v1") && firstSegment(p) != "/v1":
		return errors.New("write /v1 in lower case")
	default:
		return nil
	}
}

// isPlainPath reports whether every server reads a path in the same way.
func isPlainPath(p string) bool {
	u, err := url.ParseRequestURI(p)
	odd := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`%?#*\,;`, r) }
	return err == nil && u.EscapedPath() == p && strings.HasPrefix(p, "/") && len(p) <= MaxPublicPathBytes &&
		(p == "/" || path.Clean(p) == strings.TrimSuffix(p, "/")) && !strings.ContainsFunc(p, odd)
}

// isFrontPath reports whether a path is below one that the front serves.
func isFrontPath(p string) bool {
	return isBelow(p, "/auth") || isBelow(p, PathHandoff) || isBelow(p, "/health") || isBelow(p, PathLogout)
}

func isBelow(p, top string) bool { return strings.EqualFold(firstSegment(p), top) }

// firstSegment returns the first segment of a path, with its slash.
func firstSegment(p string) string {
	first, _, _ := strings.Cut(path.Clean(p)[1:], "/")
	return "/" + first
}

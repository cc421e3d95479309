// Package function knows what a function is: a route or a worker as a plain value, and everything that happens around
// its handler in one place: request ids, authentication, access, limits, decoding and validation, rendering, errors and
// the one log line of a call. It does not know which functions exist (package functions) nor any outside system.
package function

import (
	"net/http"

	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/ratelimit"
)

// Access says who may call a route.
type Access string

// The kinds of access, from the narrowest.
const (
	// Admin: an API key, or a session with the role org:admin.
	Admin Access = "admin"
	// Member: any session with an active organization, or an API key.
	Member Access = "member"
	// User: any good token, also without an organization.
	User Access = "user"
	// Public: nobody is asked.
	Public Access = "public"
)

// Need names an outside system, and the right to it, that a function cannot work without. It decides what the function
// is handed and which IAM roles it is granted.
type Need string

// The needs.
const (
	Firestore     Need = "firestore"      // read and write records
	Publish       Need = "publish"        // publish nudges
	SecretAdd     Need = "secret_add"     // create secrets, add and list versions, without reading them
	SecretRead    Need = "secret_read"    // read secrets
	SecretManage  Need = "secret_manage"  // read, add and destroy secrets
	Cluster       Need = "cluster"        // the Kubernetes API of the cells
	GatewayAccess Need = "gateway_access" // agents on their own hostnames
	Payments      Need = "payments"       // the payment provider
	Members       Need = "members"        // the identity provider's administration of users
	Monitoring    Need = "monitoring"     // read what was measured of the cells
	HandoffSign   Need = "handoff_sign"   // the key that signs links to dashboards
)

// Role names the binary a function is linked into, so that one function's libraries do not slow another's cold start.
type Role string

// The roles.
const (
	RoleAPI      Role = "api"
	RoleAccounts Role = "accounts"
	RoleWorker   Role = "worker"
)

// DefaultBodyLimit is how many bytes a request body may have where a route does not say otherwise.
const DefaultBodyLimit = 256 << 10

// Route is one HTTP route: the same value serves it, documents it and routes to it.
type Route struct {
	// Name is the function's name and the operation id, such as "StopAgent".
	Name   string
	Method string
	// Path is the canonical path with its parameters in braces, below /api/v1 where it belongs to the interface.
	Path   string
	Access Access
	// Feature is the feature that the organization's plan must have; empty for none.
	Feature string
	Role    Role
	Needs   []Need
	Summary string
	// Status is the status of a success.
	Status int
	// Errors lists the kinds of errors that Handle decides on by its own rules, such as fault.Conflict. What follows
	// from the other fields (authentication, access, an id in the path, a body, outside systems) is not repeated here.
	Errors []fault.Kind
	// Deprecated is nil for a route that stays.
	Deprecated *Deprecation
	// BodyLimit is how many bytes a body may have; zero means DefaultBodyLimit.
	BodyLimit int64
	// Limit is a class of calls with a limit of its own that the route counts into, beside the limit of every call;
	// empty for none.
	Limit ratelimit.Class
	// Reads names the document the route reads, from its path parameters, so that it is fetched in the round trip that
	// authenticates.
	Reads func(path func(name string) string) document.Ref
	// Handle is made by Handle.
	Handle Endpoint
}

// Mutates reports whether a call of the route may change something.
func (r Route) Mutates() bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

func (r Route) bodyLimit() int64 {
	if r.BodyLimit > 0 {
		return r.BodyLimit
	}
	return DefaultBodyLimit
}

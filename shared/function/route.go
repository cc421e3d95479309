// Package function defines routes and workers as plain values, and serves them. It does everything around a handler:
// request ids, authentication, access, limits, validation, responses, errors, the audit entry and the log line.
// serve.go lists these steps in order. It does not list the functions that exist (package functions) and does not call
// any outside system.
package function

import (
	"net/http"
	"time"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/ratelimit"
)

// Access names who may call a route.
type Access string

// The kinds of access, narrowest first.
const (
	// Admin: a session or an API key with the role admin.
	Admin Access = "admin"
	// Member: any API key, or any session with an active organization.
	Member Access = "member"
	// User: any valid token, even without an organization.
	User Access = "user"
	// Bearer: a token is required, and whoever the handler calls with it verifies it. Such a route only forwards calls
	// to other routes, which authenticate, limit and audit them. It needs no right to read callers.
	Bearer Access = "bearer"
	// Public: no token is required.
	Public Access = "public"
)

// Authenticates reports whether the guard of a route with this access identifies the caller.
func (a Access) Authenticates() bool { return a != Public && a != Bearer }

// Need names an outside system that a function uses and the rights it has there. It decides which clients the function
// receives and which IAM roles Terraform grants it.
type Need string

// The needs.
const (
	Firestore      Need = "firestore"       // read and write records
	FirestoreRead  Need = "firestore_read"  // read records
	Publish        Need = "publish"         // publish nudges of agents
	NudgeWebhooks  Need = "nudge_webhooks"  // publish nudges of webhooks, for whoever writes events
	SecretAdd      Need = "secret_add"      // create secrets, add and list versions, without reading them
	SecretRead     Need = "secret_read"     // read secrets
	SecretManage   Need = "secret_manage"   // read, add and destroy secrets
	SecretCollect  Need = "secret_collect"  // list, mark and delete secrets, without reading them
	ClusterApply   Need = "cluster_apply"   // apply and delete agents' objects in the cells
	ClusterLook    Need = "cluster_look"    // list agents' objects and pods in the cells
	ClusterCollect Need = "cluster_collect" // list, mark and delete agents' namespaces in the cells
	PodLogs        Need = "pod_logs"        // read the logs of agents' containers in the cells
	LogKeep        Need = "log_keep"        // keep the logs of ended containers in agents' namespaces
	PodExec        Need = "pod_exec"        // run commands in agents' containers in the cells
	PodQuiesce     Need = "pod_quiesce"     // run the program of agents' images that makes their volumes quiet
	GatewayAccess  Need = "gateway_access"  // call agents on their hostnames
	Payments       Need = "payments"        // the payment provider
	Members        Need = "members"         // manage users at the identity provider
	Monitoring     Need = "monitoring"      // read the metrics of the cells
	HandoffSign    Need = "handoff_sign"    // the key that signs links to dashboards
	WebhookSign    Need = "webhook_sign"    // the key from which webhooks' signing secrets derive
	WebhookSend    Need = "webhook_send"    // call the receivers of webhooks
	ClientsRead    Need = "clients_read"    // read the published clients
	BackupsRead    Need = "backups_read"    // read when the records were backed up
)

// Role names the binary that a function is linked into. Separate binaries keep one function's libraries out of
// another's cold start.
type Role string

// The roles.
const (
	RoleAPI      Role = "api"
	RoleAccounts Role = "accounts"
	// RoleExec serves what runs in agents' containers, and nothing else: its identity may enter them.
	RoleExec   Role = "exec"
	RoleWorker Role = "worker"
)

// DefaultBodyLimit is the largest request body in bytes of a route that sets no BodyLimit.
const DefaultBodyLimit = 256 << 10

// Route is one HTTP route. The same value serves it, documents it and deploys it.
type Route struct {
	// Name is the function's name, the operation id and the audit action, such as "StopAgent".
	Name   string
	Method string
	// Path is the canonical path with its parameters in braces. API routes begin with Prefix. A last parameter such as
	// {path...} may have slashes.
	Path   string
	Access Access
	// Feature is the plan feature that the organization needs; empty for none.
	Feature string
	Role    Role
	Needs   []Need
	Summary string
	// Status is the HTTP status of a success.
	Status int
	// Errors lists the error kinds that the handler's own rules produce, such as fault.Conflict. It does not repeat
	// those that follow from other fields: authentication, access, an id in the path, a body, outside systems.
	Errors []fault.Kind
	// Holds is the longest time that an answer stays open, for a route whose answers may take more than a minute; zero
	// for other routes. The service that runs the route must not end an answer sooner.
	Holds time.Duration
	// Audited is for a route whose calls have an audit entry though its method changes nothing.
	Audited bool
	// WebSocket is for a route whose success is a WebSocket: an Upgrade. Its callers may send their token in a
	// subprotocol, because browsers send no header Authorization with a WebSocket.
	WebSocket bool
	// Redirects is for a route that may answer with the address of what was asked for.
	Redirects bool
	// TakesMessages is for a route that answers some requests with 202 and no body: messages that take no answer.
	TakesMessages bool
	// Home is for the page for people who open the address of the API in a browser.
	Home bool
	// OwnKey is for a route of one agent that the agent itself may call, too, with its own API key.
	OwnKey bool
	// KeyItself is the path parameter that names an API key, for a route that a key may call on itself whatever its
	// role is; empty for other routes.
	KeyItself string
	// Deprecated announces the route's removal; nil for a route that stays.
	Deprecated *Deprecation
	// BodyLimit is the largest request body in bytes; zero means DefaultBodyLimit.
	BodyLimit int64
	// TooLarge replaces the error for a body over the limit; nil keeps it.
	TooLarge *fault.Error
	// Limit is a second rate limit, in addition to the limits on every call; empty for none. It counts the
	// organization's calls of the routes with the same Limit, or, for a route of one agent, those on the agent. It
	// counts in the memory of the process.
	Limit ratelimit.Class
	// Reads returns the document that the route reads, given the path parameters. Authentication fetches it in the
	// same round trip as the API key.
	Reads func(path func(name string) string) document.Ref
	// KeepAnswer is for a handler whose effects are outside the store of records, so that no commit of it can keep the
	// answer of a call with an Idempotency-Key. The server then claims the key before the handler, and keeps the
	// rendered answer after it.
	KeepAnswer bool
	// ResourceMetadata is the URL of the document that says how to get a token (RFC 9728), for clients that follow it
	// from a 401. Empty for none.
	ResourceMetadata string
	// Rehearsal answers calls with dry_run=true; nil for a route that takes no such calls.
	Rehearsal *Rehearsal
	// Target returns what the call acts on, for its audit entry, given the path parameters. Nil derives it from the
	// path.
	Target func(path func(name string) string) audit.Target
	// Handle runs the handler. The function Handle makes it.
	Handle Endpoint
}

// Mutates reports whether a call may change something, judging by the method.
func (r Route) Mutates() bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// audited reports whether each call has an audit entry.
func (r *Route) audited() bool { return r.Mutates() || r.Audited }

func (r *Route) bodyLimit() int64 {
	if r.BodyLimit > 0 {
		return r.BodyLimit
	}
	return DefaultBodyLimit
}

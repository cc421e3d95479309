// Package firestore keeps the control plane's records in Firestore. It is the only package that speaks to it.
//
// It knows the collections, how records become documents, and how a change stays whole: the documents it needs are read
// by id, a pure function decides, and one atomic commit writes everything under preconditions on what was read. When a
// precondition fails, it begins again. There are no transactions, because those lock: writers of one organization would
// wait for each other instead of for nothing.
//
// It does not know the rules of agents, keys and organizations (their packages in shared), nor who reads the
// environment.
package firestore

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"
	"unicode/utf8"

	gcp "cloud.google.com/go/firestore"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"agents.example/controlplane/shared/agent"
)

// The collections. A document's id is the record's id, or the hash of an API key or an idempotency key.
const (
	agentCollection        = "agents"
	organizationCollection = "organizations"
	keyCollection          = "api_keys"
	userCollection         = "users"
	auditCollection        = "audit_log"
	idempotencyCollection  = "idempotency"
	eventCollection        = "billing_events"
	membershipCollection   = "memberships"
	leaseCollection        = "leases"
	metricsCollection      = "metrics"
	progressCollection     = "metrics_progress"
	operationCollection    = "secret_operations"
)

// defaultTimeout ends a call that hangs, well before its caller's own deadline would.
const defaultTimeout = 10 * time.Second

// Options says which database to open.
type Options struct {
	// ProjectID is the project that has the database. Required.
	ProjectID string
	// DatabaseID names the database; empty is the project's default one.
	DatabaseID string
	// EmulatorHost is the address (host:port) of an emulator. When it is empty, FIRESTORE_EMULATOR_HOST is honoured as
	// Google's library does; DialOptions and Observe have no effect on such a connection.
	EmulatorHost string
	// Timeout ends an operation together with its repetitions, and every single call; 0 is 10 s.
	Timeout time.Duration
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Observe is called with the full method name of every call that is sent, repetitions included. It may be nil.
	Observe func(method string)
	// DialOptions are added to the connection's, such as interceptors.
	DialOptions []grpc.DialOption
}

// Client is an open database. Its methods and those of its parts may be called from any goroutine.
type Client struct {
	db      *gcp.Client
	timeout time.Duration
	clock   func() time.Time
	// ensured remembers the organizations and users whose records are known to say what their tokens say, so that
	// looking costs once a process.
	ensured *knownRecords
	touched *recentlySeen
	touches *background
}

// Open connects to the database. It makes no call: Ping tells whether the database answers.
func Open(ctx context.Context, o Options) (*Client, error) {
	dial := append([]grpc.DialOption{}, o.DialOptions...)
	if o.Observe != nil {
		dial = append(dial, observe(o.Observe)...)
	}
	database := o.DatabaseID
	if database == "" {
		database = gcp.DefaultDatabaseID
	}
	db, err := connect(ctx, o, database, dial)
	if err != nil {
		return nil, fmt.Errorf("open firestore database %q of project %q: %w", database, o.ProjectID, err)
	}
	c := &Client{
		db: db, timeout: o.Timeout, clock: o.Now,
		ensured: newKnownRecords(), touched: newRecentlySeen(), touches: newBackground(),
	}
	if c.timeout <= 0 {
		c.timeout = defaultTimeout
	}
	if c.clock == nil {
		c.clock = time.Now
	}
	return c, nil
}

// connect opens the library's client over the real service, or over the emulator.
func connect(ctx context.Context, o Options, database string, dial []grpc.DialOption) (*gcp.Client, error) {
	if o.EmulatorHost == "" {
		options := make([]option.ClientOption, len(dial))
		for i, d := range dial {
			options[i] = option.WithGRPCDialOption(d)
		}
		return gcp.NewClientWithDatabase(ctx, o.ProjectID, database, options...)
	}
	conn, err := grpc.NewClient("passthrough:///"+o.EmulatorHost, append(dial,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(emulatorOwner{}))...)
	if err != nil {
		return nil, err
	}
	db, err := gcp.NewClientWithDatabase(ctx, o.ProjectID, database, option.WithGRPCConn(conn))
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return db, nil
}

// emulatorOwner is the credential with which the emulator skips security rules.
type emulatorOwner struct{}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (emulatorOwner) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer owner"}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials: the emulator has no TLS.
func (emulatorOwner) RequireTransportSecurity() bool { return false }

// Close waits for the work in the background and closes the connection.
func (c *Client) Close() error {
	c.touches.close()
	if err := c.db.Close(); err != nil {
		return fmt.Errorf("close firestore: %w", err)
	}
	return nil
}

// Ping reads one document that does not exist: the cheapest proof that the database answers. Errors: Unavailable.
func (c *Client) Ping(ctx context.Context) error {
	ref, _ := c.ref("health", "ping")
	_, err := c.read(ctx, ref)
	return err
}

// Agents is the store of agents for routes. Workers are nudged through n.
func (c *Client) Agents(n agent.Nudger) *Agents { return &Agents{client: c, nudger: n} }

// WorkerStore is the store of agents for workers.
func (c *Client) WorkerStore() *WorkerStore { return &WorkerStore{client: c} }

// Operations is the history of secret operations.
func (c *Client) Operations() *Operations { return &Operations{client: c} }

// Keys is the store of API keys, for routes and for authentication.
func (c *Client) Keys() *Keys { return &Keys{client: c} }

// Directory is the store of organizations and users.
func (c *Client) Directory() *Directory { return &Directory{client: c} }

// now is the time to the microsecond, because Firestore keeps no more: what is written equals what is read.
func (c *Client) now() time.Time { return c.clock().UTC().Truncate(time.Microsecond) }

// reservedID matches the ids that Firestore keeps for itself.
var reservedID = regexp.MustCompile(`^(\.|\.\.|__.*__)$`)

// maxID is Firestore's limit of a document id in bytes.
const maxID = 1500

var errBadID = errors.New("not an id that a document can have")

// ref refers to a document. It is false for an id that no document can have: asking for it would be an error instead of
// "not found".
func (c *Client) ref(collection, id string) (*gcp.DocumentRef, bool) {
	if !validID(id) {
		return nil, false
	}
	return c.db.Collection(collection).Doc(id), true
}

// agent refers to an agent by its id as a client may write it.
func (c *Client) agent(id string) (*gcp.DocumentRef, bool) {
	d := agent.Document(id)
	return c.ref(d.Collection, d.ID)
}

func validID(id string) bool {
	if id == "" || len(id) > maxID || !utf8.ValidString(id) || reservedID.MatchString(id) {
		return false
	}
	for _, r := range id {
		if r == '/' || r == 0 {
			return false
		}
	}
	return true
}

// Flush waits until what is written in the background, such as that a key was used, has been written.
func (c *Client) Flush() { c.touches.wait.Wait() }

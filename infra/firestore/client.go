// Package firestore stores the control plane's records in Firestore. It is the only package that calls Firestore.
//
// A change reads the documents it needs by id, decides in memory, and writes everything in one atomic commit, on the
// condition that the documents did not change since they were read. If they did, it starts over. It uses no
// transactions, because transactions lock: writers of one organization would block each other.
//
// It does not contain the rules for agents, keys and organizations (see their packages in shared), and it does not read
// configuration from the environment.
package firestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	gcp "cloud.google.com/go/firestore"
	vkit "cloud.google.com/go/firestore/apiv1"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/ratelimit"
)

// The collections. A document's id is the id of its record, or the hash of an API key or idempotency key.
const (
	agentCollection        = "agents"
	organizationCollection = "organizations"
	keyCollection          = "api_keys"
	userCollection         = "users"
	auditCollection        = "audit_log"
	sealCollection         = "audit_seals"
	sealHeadCollection     = "audit_seal_heads"
	idempotencyCollection  = "idempotency"
	appliedEventCollection = "billing_events"
	eventCollection        = "events"
	membershipCollection   = "memberships"
	leaseCollection        = "leases"
	metricsCollection      = "metrics"
	progressCollection     = "metrics_progress"
	operationCollection    = "secret_operations"
	budgetCollection       = "budgets"
	webhookCollection      = "webhooks"
	deliveryCollection     = "webhook_deliveries"
	deletionCollection     = "deletions"
	imageCollection        = "images"
	releaseCollection      = "releases"
	egressDayCollection    = "egress_days"
	egressNoteCollection   = "egress_notices"
)

// defaultTimeout is well below the deadlines of callers, so that a call that hangs can still be answered.
const defaultTimeout = 10 * time.Second

// Options selects the database to open.
type Options struct {
	// ProjectID is the database's project. Required.
	ProjectID string
	// DatabaseID names the database; empty means the project's default one.
	DatabaseID string
	// EmulatorHost is the address (host:port) of an emulator. When it is empty, Google's library reads
	// FIRESTORE_EMULATOR_HOST; DialOptions and Observe then have an effect on waits only.
	EmulatorHost string
	// Timeout bounds every call, and every operation with its retries; 0 means 10 s.
	Timeout time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Creations is the rate limit of creations of agents in one organization; zero means no limit.
	Creations ratelimit.Limit
	// SecretWrites is the rate limit of secret writes in one organization; zero means no limit.
	SecretWrites ratelimit.Limit
	// Exports is the rate limit of the GiB that exports of one organization send; zero means no limit.
	Exports ratelimit.Limit
	// SecretRequests is the limit of the calls that all requests together make of the secret store; zero means no
	// limit.
	SecretRequests ratelimit.Limit
	// SecretCleanup is the limit of the calls that all workers together make to destroy secrets' versions; zero means
	// no limit.
	SecretCleanup ratelimit.Limit
	// MaxFreeAgents is how many organizations on free plans may hold an agent; zero means no limit.
	MaxFreeAgents int64
	// BuiltIn are the images that the deployment's settings name.
	BuiltIn image.BuiltIn
	// Observe is called with the full method name of every call, retries included. It may be nil.
	Observe func(method string)
	// DialOptions are added to the connection's, such as interceptors.
	DialOptions []grpc.DialOption
}

// Client is an open database. It and the stores that it returns are safe for concurrent use.
type Client struct {
	db *gcp.Client
	// collections holds the collections that were used, by name, because making one takes as long as a small document.
	collections sync.Map
	timeout     time.Duration
	clock       func() time.Time
	// databaseClock is the database's clock, which may differ from clock.
	databaseClock *databaseClock
	listeners     *listeners
	feeds         *feeds
	// onEvents is called after changes that have events; nil calls nothing.
	onEvents atomic.Pointer[func(ctx context.Context, organizationID string)]
	// The limits of Options.
	creations, secretWrites, exports, secretRequests, secretCleanup ratelimit.Limit
	freeAgents                                                      freeAgents
	builtIn                                                         image.BuiltIn
	images                                                          imageCache
	// ensured remembers the organizations and users whose records agree with their tokens, so that each process
	// checks them once.
	ensured *knownRecords
	// claimed remembers which uses and views were written recently, and background writes them.
	claimed    *recentClaims
	recent     *recentRecords
	background *background
}

// Open connects to the database. It makes no call; use Ping to check the connection.
func Open(ctx context.Context, o Options) (*Client, error) {
	databaseClock := &databaseClock{}
	dial := append([]grpc.DialOption{databaseClock.observeQueries()}, o.DialOptions...)
	if o.Observe != nil {
		dial = append(dial, observe(o.Observe)...)
	}
	database := o.DatabaseID
	if database == "" {
		database = gcp.DefaultDatabaseID
	}
	db, err := connect(ctx, o.EmulatorHost, dial,
		func(ctx context.Context, opts ...option.ClientOption) (*gcp.Client, error) {
			return gcp.NewClientWithDatabase(ctx, o.ProjectID, database, opts...)
		})
	if err != nil {
		return nil, fmt.Errorf("open firestore database %q of project %q: %w", database, o.ProjectID, err)
	}
	c := &Client{
		db: db, timeout: o.Timeout, clock: o.Now, databaseClock: databaseClock, creations: o.Creations,
		secretWrites: o.SecretWrites, secretRequests: o.SecretRequests, secretCleanup: o.SecretCleanup,
		exports: o.Exports,
		listeners: newListeners("projects/"+o.ProjectID+"/databases/"+database, func() (*vkit.Client, error) {
			host := cmp.Or(o.EmulatorHost, os.Getenv("FIRESTORE_EMULATOR_HOST")) //nolint:forbidigo // as Google's
			return connect(context.WithoutCancel(ctx), host, dial, vkit.NewClient)
		}),
		freeAgents: freeAgents{max: o.MaxFreeAgents}, builtIn: o.BuiltIn,
		images:  imageCache{reading: make(chan struct{}, 1)},
		ensured: newKnownRecords(), claimed: newRecentClaims(), background: newBackground(),
		recent: newRecentRecords(),
	}
	c.feeds = &feeds{client: c, feeds: map[string]*feed{}, patience: listenPatience}
	if c.timeout <= 0 {
		c.timeout = defaultTimeout
	}
	if c.clock == nil {
		c.clock = time.Now
	}
	return c, nil
}

// connect opens a client of Google's for the service, or for the emulator at host.
func connect[C io.Closer](ctx context.Context, host string, dial []grpc.DialOption,
	open func(context.Context, ...option.ClientOption) (C, error),
) (C, error) {
	if host == "" {
		options := make([]option.ClientOption, len(dial))
		for i, d := range dial {
			options[i] = option.WithGRPCDialOption(d)
		}
		return open(ctx, options...)
	}
	var none C
	conn, err := grpc.NewClient("passthrough:///"+host, append(slices.Clip(dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(emulatorOwner{}))...)
	if err != nil {
		return none, err
	}
	client, err := open(ctx, option.WithGRPCConn(conn))
	if err != nil {
		return none, errors.Join(err, conn.Close())
	}
	return client, nil
}

// emulatorOwner is the credential that makes the emulator skip security rules.
type emulatorOwner struct{}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (emulatorOwner) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer owner"}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials: the emulator has no TLS.
func (emulatorOwner) RequireTransportSecurity() bool { return false }

// Flush waits for writes in the background, such as an API key's last use.
func (c *Client) Flush() { c.background.wait.Wait() }

// Close waits for writes in the background, ends waits and closes the connections.
func (c *Client) Close() error {
	c.background.close()
	err := errors.Join(c.listeners.close(), c.db.Close())
	c.feeds.running.Wait()
	if err != nil {
		return fmt.Errorf("close firestore: %w", err)
	}
	return nil
}

// Ping checks that the database answers. It reads one document that does not exist. Errors: Unavailable.
func (c *Client) Ping(ctx context.Context) error {
	ref, _ := c.ref("health", "ping")
	_, err := c.readOne(ctx, ref)
	return err
}

// now is the time as Firestore stores it.
func (c *Client) now() time.Time { return storedTime(c.clock()) }

// maxID is Firestore's limit for a document id, in bytes.
const maxID = 1500

var errBadID = errors.New("not a valid document id")

// ref names a document. It is false for an invalid id, because Firestore answers those with an error instead of "not
// found".
func (c *Client) ref(collection, id string) (*gcp.DocumentRef, bool) {
	if !validID(id) {
		return nil, false
	}
	return c.collection(collection).Doc(id), true
}

func (c *Client) collection(name string) *gcp.CollectionRef {
	known, ok := c.collections.Load(name)
	if !ok {
		known, _ = c.collections.LoadOrStore(name, c.db.Collection(name))
	}
	return known.(*gcp.CollectionRef) //nolint:forcetypeassert // nothing else is stored
}

// agent names an agent's document. The id may come from a client.
func (c *Client) agent(id string) (*gcp.DocumentRef, bool) {
	d := agent.Document(id)
	return c.ref(d.Collection, d.ID)
}

// reserved reports whether Firestore reserves an id.
func reserved(id string) bool {
	const mark = "__"
	return id == "." || id == ".." ||
		len(id) >= 2*len(mark) && strings.HasPrefix(id, mark) && strings.HasSuffix(id, mark)
}

func validID(id string) bool {
	if id == "" || len(id) > maxID || !utf8.ValidString(id) || reserved(id) {
		return false
	}
	for _, r := range id {
		if r == '/' || r == 0 {
			return false
		}
	}
	return true
}

// observe makes the interceptors that report every call.
func observe(report func(method string)) []grpc.DialOption {
	unary := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		report(method)
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	stream := func(
		ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer,
		opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		report(method)
		return open(ctx, desc, cc, method, opts...)
	}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(stream)}
}

// Package wire opens the clients that functions need, once each, and gives every function the ports that its needs
// name. It opens Firestore, Pub/Sub, Secret Manager and the identity provider itself. Clients that only some binaries
// link are opened by functions that are passed in, so that a binary links no library that it does not use.
package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/functions/mcp/mcproute"
	"agents.example/controlplane/functions/workers"
	"agents.example/controlplane/infra/firestore"
	"agents.example/controlplane/infra/oidc"
	"agents.example/controlplane/infra/pubsub"
	"agents.example/controlplane/infra/secretmanager"
	"agents.example/controlplane/shared/agentexec"
	"agents.example/controlplane/shared/agentlog"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/member"
	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/ratelimit"
	"agents.example/controlplane/shared/secretwrite"
	"agents.example/controlplane/shared/webhook"
)

// Clusters is the client for the cells.
type Clusters interface {
	provisioning.Cluster
	provisioning.Volumes
	provisioning.NamespaceLister
	provisioning.PodLister
	provisioning.ObjectLister
	provisioning.LogKeeper
	provisioning.Readers
	io.Closer
}

// MetricsSource is the client that reads the metrics of the cells.
type MetricsSource interface {
	metrics.Source
	io.Closer
}

// Openers open the clients that only some binaries link. A nil opener means that this binary does not link that client.
type Openers struct {
	Clusters      func(ctx context.Context) (Clusters, error)
	MetricsSource func(ctx context.Context) (MetricsSource, error)
	Backups       func(ctx context.Context) (workers.Backups, error)
	Logs          func(ctx context.Context) (agentlog.Source, error)
	Commands      func(ctx context.Context) (agentexec.Source, error)
	Quiescer      func(ctx context.Context) (provisioning.Quiescer, error)
	Payments      func(ctx context.Context) (billing.Payments, error)
	Members       func(ctx context.Context) (member.Provider, error)
	MCP           func(api mcproute.API) mcproute.Server
}

// Settings are the settings of a process in addition to its common configuration.
type Settings struct {
	Openers
	// Peppers are the hash keys for stored API keys. A process that serves workers only has none.
	Peppers apikey.Peppers
	// EdgeSecrets are those by which the process knows requests of its load balancer.
	EdgeSecrets config.EdgeSecrets
	// BillingClock is the clock of accounts; nil means time.Now.
	BillingClock func() time.Time
	// ConsoleClientID and ConsoleScopes are those of the console at the identity provider.
	ConsoleClientID, ConsoleScopes string
	// SupportURL is where the console sends people who need support; empty for none.
	SupportURL string
	// BackupForGKE says whether the cells have backup plans.
	BackupForGKE bool
	// APIBaseURL is the address of the API for its clients. CLIClientID and CLIScopes are those of the command line
	// tool at the identity provider.
	APIBaseURL, CLIClientID, CLIScopes string
	// ClientsBucket is the bucket with the published clients of the API.
	ClientsBucket string
	// MaxHeldAnswers is how many answers all routes of the process together may hold open.
	MaxHeldAnswers int
}

// Clients opens each client when it is first needed.
type Clients struct {
	ctx      context.Context // bounds opening, which happens later
	config   config.Common
	settings Settings
	slots    *ratelimit.Slots // of all routes
	// commandSlots are those of the commands in agents' containers.
	commandSlots *ratelimit.Slots
	// sent collects what is sent from agents' containers.
	sent *ratelimit.Meter

	firestore     func() (*firestore.Client, error)
	publisher     func() (*pubsub.Publisher, error)
	secrets       func() (*secretmanager.Store, error)
	clusters      func() (Clusters, error)
	metricsSource func() (MetricsSource, error)
	backups       func() (workers.Backups, error)
	logs          func() (agentlog.Source, error)
	commands      func() (agentexec.Source, error)
	quiescer      func() (provisioning.Quiescer, error)
	payments      func() (billing.Payments, error)
	members       func() (member.Provider, error)

	// reportEvents makes changes of records nudge the webhooks of their organization.
	reportEvents func() error

	mu sync.Mutex
	// flushes wait for what clients do in the background, possibly with other clients.
	flushes []func()
	closes  []func() error
}

// New returns the clients of a configuration. It opens none of them yet; ctx bounds opening.
func New(ctx context.Context, c config.Common, s Settings) *Clients {
	o := &Clients{
		ctx: ctx, config: c, settings: s,
		slots:        ratelimit.NewSlots(ratelimit.StandardSlots(c.RateLimitFactor, s.MaxHeldAnswers)),
		commandSlots: ratelimit.NewSlots(ratelimit.CommandSlots(c.RateLimitFactor)),
		sent:         ratelimit.NewMeter(ratelimit.ExportUnit, nil),
	}
	o.firestore = lazy(o, "Firestore", func(ctx context.Context) (*firestore.Client, error) {
		return firestore.Open(ctx, firestore.Options{
			ProjectID: c.ProjectID, DatabaseID: c.Database, EmulatorHost: c.Local.FirestoreEmulator,
			Creations:      ratelimit.Standard(c.RateLimitFactor)[ratelimit.Creations],
			SecretWrites:   ratelimit.Standard(c.RateLimitFactor)[ratelimit.SecretWrites],
			Exports:        ratelimit.Standard(c.RateLimitFactor)[ratelimit.Exports],
			SecretRequests: secretwrite.RequestLimit(int(c.SecretManagerWrites)),
			SecretCleanup:  provisioning.CleanupLimit(int(c.SecretManagerWrites)),
			MaxFreeAgents:  int64(c.MaxFreeAgents),
			BuiltIn:        c.BuiltInImages(),
		})
	})
	o.publisher = lazy(o, "Pub/Sub", func(ctx context.Context) (*pubsub.Publisher, error) {
		return pubsub.Open(ctx, pubsub.Options{
			ProjectID: c.ProjectID, Topic: c.NudgeTopic, WebhookTopic: c.WebhookTopic,
			EmulatorHost: c.Local.PubSubEmulator,
		})
	})
	o.reportEvents = sync.OnceValue(func() error {
		records, err := o.firestore()
		if err != nil {
			return err
		}
		publisher, err := o.publisher()
		if err != nil {
			return err
		}
		notifier := &webhook.Notifier{Store: records.WebhookWorkerStore(), Nudger: publisher, Now: time.Now}
		records.OnEvents(notifier.EventCommitted)
		return nil
	})
	o.secrets = lazy(o, "Secret Manager", func(ctx context.Context) (*secretmanager.Store, error) {
		return secretmanager.Open(ctx, secretmanager.Options{
			ProjectID: c.ProjectID, Environment: c.Environment, Database: c.DatabaseLabel(),
			Endpoint: c.Local.SecretManager, Regions: c.SecretRegions,
		})
	})
	o.clusters = lazy(o, "Kubernetes", s.Clusters)
	o.metricsSource = lazy(o, "Cloud Monitoring", s.MetricsSource)
	o.backups = lazy(o, "backups", s.Backups)
	o.logs = lazy(o, "pod log", s.Logs)
	o.commands = lazy(o, "pod command", s.Commands)
	o.quiescer = lazy(o, "quiescing", s.Quiescer)
	o.payments = lazy(o, "payment provider", s.Payments)
	o.members = lazy(o, "member provider", s.Members)
	return o
}

// lazy opens a client on first use. The client is flushed and closed with the others if it has such methods.
func lazy[T any](o *Clients, name string, open func(context.Context) (T, error)) func() (T, error) {
	return sync.OnceValues(func() (client T, err error) {
		if open == nil {
			return client, fmt.Errorf("this binary does not link the %s client", name)
		}
		client, err = open(o.ctx)
		if c, ok := any(client).(io.Closer); ok && err == nil {
			o.closeLater(c.Close)
		}
		if c, ok := any(client).(interface{ Flush() }); ok && err == nil {
			o.mu.Lock()
			o.flushes = append(o.flushes, c.Flush)
			o.mu.Unlock()
		}
		return client, err
	})
}

func (o *Clients) closeLater(f func() error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closes = append(o.closes, f)
}

// Close flushes what was opened, because the database publishes, and then closes it in reverse order.
func (o *Clients) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, flush := range o.flushes {
		flush()
	}
	var errs []error
	for _, c := range slices.Backward(o.closes) {
		errs = append(errs, c())
	}
	o.closes = nil
	return errors.Join(errs...)
}

// Guard returns the guard of the routes: authentication, rate limits and the audit log.
func (o *Clients) Guard() (function.Guard, error) {
	client, err := o.firestore()
	if err != nil {
		return function.Guard{}, err
	}
	sessions, err := oidc.NewSessions(oidc.Options{
		Issuer: o.config.Issuer, AuthorizedParties: o.config.AuthorizedParties,
	})
	if err != nil {
		return function.Guard{}, err
	}
	directory, limiter := client.Directory(), ratelimit.New(ratelimit.Standard(o.config.RateLimitFactor), nil)
	return function.Guard{
		Authenticator: &identity.Authenticator{
			Sessions: sessions, Keys: client.Keys(), Agents: client.AgentFinder(), Directory: directory,
			Peppers: o.settings.Peppers, Now: time.Now, Limiter: limiter,
			RecentKeys: identity.NewRecentKeys(nil), RecentAgents: identity.NewRecentAgents(nil),
		},
		Limiter: limiter,
		Audit:   client.AuditLog(), Answers: client.Answers(), Organizations: directory,
		Lines: &function.LineBudget{},
	}, nil
}

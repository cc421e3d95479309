// Package open opens what functions need, once each, and hands every function what its own needs name. It knows the clients of Firestore,
// Pub/Sub, Secret Manager and the identity provider. Clusters are opened by a function that is passed in, so that only the binaries that
// speak to Kubernetes link its libraries.
package open

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/entrypoint/config"
	"agents.example/controlplane/infra/firestore"
	infraidentity "agents.example/controlplane/infra/identity"
	"agents.example/controlplane/infra/pubsub"
	"agents.example/controlplane/infra/secretmanager"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/member"
	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/ratelimit"
)

// Clusters is what functions need of the cells.
type Clusters struct {
	Cluster provisioning.Cluster
	Fleet   provisioning.Fleet
	Lookout provisioning.Lookout
	// Close frees the connections.
	Close func() error
}

// Points is where functions read what was measured of the cells, and Close frees the connection.
type Points struct {
	Source metrics.Source
	Close  func() error
}

// Openers open what only some binaries link; a nil one opens nothing. What they open is closed in the end, if it can be.
type Openers struct {
	Clusters func(ctx context.Context) (Clusters, error)
	Points   func(ctx context.Context) (Points, error)
	Payments func(ctx context.Context) (billing.Payments, error)
	Members  func(ctx context.Context) (member.Provider, error)
	// BillingClock is the clock of accounts; nil is time.Now.
	BillingClock func() time.Time
}

// Clients opens clients when they are first needed.
type Clients struct {
	ctx    context.Context // bounds the opening, which happens later
	config config.Common
	// Patience is handed to workers.
	Patience time.Duration
	// Openers open the cells, what is measured of them, and who knows the customers. They are nil where no function needs them.
	Openers

	records  func() (*firestore.Client, error)
	nudges   func() (*pubsub.Publisher, error)
	secrets  func() (*secretmanager.Vault, error)
	clusters func() (Clusters, error)
	payments func() (billing.Payments, error)
	members  func() (member.Provider, error)
	points   func() (Points, error)

	mu     sync.Mutex
	closed []func() error
}

// New makes the clients of a configuration. Nothing is opened yet; ctx bounds the opening.
func New(ctx context.Context, c config.Common) *Clients {
	o := &Clients{ctx: ctx, config: c}
	o.records = once(o, func() (*firestore.Client, error) {
		return firestore.Open(ctx, firestore.Options{ProjectID: c.ProjectID, DatabaseID: c.Database, EmulatorHost: c.Local.FirestoreEmulator})
	})
	o.nudges = once(o, func() (*pubsub.Publisher, error) {
		return pubsub.Open(ctx, pubsub.Options{ProjectID: c.ProjectID, Topic: c.NudgeTopic, EmulatorHost: c.Local.PubSubEmulator})
	})
	o.secrets = once(o, func() (*secretmanager.Vault, error) {
		return secretmanager.Open(ctx, secretmanager.Options{ProjectID: c.ProjectID, Endpoint: c.Local.SecretManager, Regions: c.SecretRegions})
	})
	o.clusters = sync.OnceValues(func() (Clusters, error) {
		if o.Clusters == nil {
			return Clusters{}, errors.New("this binary is not built to speak to clusters")
		}
		clusters, err := o.Clusters(ctx)
		if err == nil {
			o.closeLater(clusters.Close)
		}
		return clusters, err
	})
	o.payments = outside(ctx, o, func() func(context.Context) (billing.Payments, error) { return o.Payments })
	o.members = outside(ctx, o, func() func(context.Context) (member.Provider, error) { return o.Members })
	o.points = sync.OnceValues(func() (Points, error) {
		if o.Points == nil {
			return Points{}, errors.New("this binary is not built to read what is measured")
		}
		points, err := o.Points(ctx)
		if err == nil {
			o.closeLater(points.Close)
		}
		return points, err
	})
	return o
}

type closer interface{ Close() error }

// once opens a client on first use and has it closed with the others.
func once[T closer](o *Clients, open func() (T, error)) func() (T, error) {
	return sync.OnceValues(func() (T, error) {
		client, err := open()
		if err == nil {
			o.closeLater(client.Close)
		}
		return client, err
	})
}

func (o *Clients) closeLater(f func() error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = append(o.closed, f)
}

// Close closes what was opened, the last first.
func (o *Clients) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var errs []error
	for _, c := range slices.Backward(o.closed) {
		errs = append(errs, c())
	}
	o.closed = nil
	return errors.Join(errs...)
}

// For implements functions.Opener.
func (o *Clients) For(needs []function.Need) (functions.Dependencies, error) {
	d := functions.Dependencies{Settings: functions.Settings{
		Cells: o.config.Cells.Placement(), Addresses: o.config.Addresses(), Pepper: o.config.Pepper, Patience: o.Patience,
		HandoffKeys:  o.config.HandoffKeys,
		BillingClock: o.BillingClock,
	}}
	has := func(n function.Need) bool { return slices.Contains(needs, n) }
	steps := []struct {
		need function.Need
		fill func(*functions.Dependencies) error
	}{
		{function.Publish, o.fillPublish},
		{function.Firestore, o.fillRecords},
		{function.SecretManage, o.fillSecrets},
		{function.SecretAdd, o.fillDepositary},
		{function.SecretRead, o.fillCredentials},
		{function.Cluster, o.fillClusters},
		{function.GatewayAccess, o.fillGateway},
		{function.Payments, o.fillPayments},
		{function.Members, o.fillMembers},
		{function.Monitoring, o.fillPoints},
		{function.HandoffSign, o.fillHandoff},
	}
	for _, s := range steps {
		if !has(s.need) {
			continue
		}
		if err := s.fill(&d); err != nil {
			return d, fmt.Errorf("open %s: %w", s.need, err)
		}
	}
	return d, nil
}

// Guard makes what decides who is let in, and what has an entry of every call that may change something.
func (o *Clients) Guard() (function.Guard, error) {
	records, err := o.records()
	if err != nil {
		return function.Guard{}, err
	}
	sessions, err := infraidentity.New(infraidentity.Options{Issuer: o.config.Issuer, AuthorizedParties: o.config.AuthorizedParties})
	if err != nil {
		return function.Guard{}, err
	}
	directory := records.Directory()
	return function.Guard{
		Authenticator: &identity.Authenticator{
			Sessions: sessions, Keys: records.Keys(), Directory: directory, Pepper: o.config.Pepper, Now: time.Now,
		},
		Limiter: ratelimit.New(ratelimit.Standard(o.config.RateLimitFactor), nil),
		Audit:   records.AuditLog(), Organizations: directory,
	}, nil
}

package cloud

import (
	"cmp"
	"context"
	"maps"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/dataplane"
	"agents.example/controlplane/emulators/firestoreemu"
	"agents.example/controlplane/emulators/issuer"
	"agents.example/controlplane/emulators/monitoringemu"
	"agents.example/controlplane/emulators/node"
	"agents.example/controlplane/emulators/pubsubemu"
	"agents.example/controlplane/emulators/secretmanageremu"
	"agents.example/controlplane/emulators/stripeemu"
	"agents.example/controlplane/emulators/telemetry"
	"agents.example/controlplane/infra/firestore"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/terraform/cell"
)

// startParts concurrently starts the parts that do not depend on each other. Close ends those that started, even if
// another one failed.
func (c *Cloud) startParts(ctx context.Context) error {
	started := make(chan part, 8)
	group, ctx := errgroup.WithContext(ctx)
	for _, start := range []func(context.Context) (part, error){
		c.startFirestore, c.startPubSub, c.startCluster, c.startIssuer, c.startSecretManager, c.startMonitoring,
		c.startStripe, c.startStorage,
	} {
		group.Go(func() error {
			begun := time.Now()
			p, err := start(ctx)
			if err != nil {
				return err
			}
			if p.name == "" {
				return nil // not used in this cloud
			}
			started <- p
			c.progress("  %-18s %-28s %s", p.name, p.where, time.Since(begun).Round(100*time.Millisecond))
			return nil
		})
	}
	err := group.Wait()
	close(started)
	for p := range started {
		if p.close != nil {
			c.closeLater(p.close)
		}
		if err == nil {
			c.watchPart(p.name, p.done)
		}
	}
	return err
}

// part is a started part of the cloud.
type part struct {
	name  string
	where string
	close func() error
	done  <-chan struct{}
}

func (c *Cloud) startFirestore(ctx context.Context) (part, error) {
	e, err := firestoreemu.Start(ctx, firestoreemu.Options{
		Choice: c.options.Emulators, Attach: c.options.AttachFirestore, Dir: filepath.Join(c.options.Dir, "firestore"),
		Indexes: firestore.Indexes(),
	})
	if err != nil {
		return part{}, err
	}
	c.Ready.FirestoreEmulatorHost = e.Host
	return part{name: "Firestore", where: e.Host + " (" + e.Kind + ")", close: e.Close, done: e.Done()}, nil
}

func (c *Cloud) startPubSub(ctx context.Context) (part, error) {
	e, err := pubsubemu.Start(ctx, pubsubemu.Options{
		Choice: c.options.Emulators, Attach: c.options.AttachPubSub, Dir: filepath.Join(c.options.Dir, "pubsub"),
	})
	if err != nil {
		return part{}, err
	}
	c.Ready.PubSubEmulatorHost = e.Host
	return part{name: "Pub/Sub", where: e.Host + " (" + e.Kind + ")", close: e.Close, done: e.Done()}, nil
}

func (c *Cloud) startCluster(ctx context.Context) (part, error) {
	if c.options.Kubeconfig != "" {
		c.Ready.Kubeconfig = c.options.Kubeconfig
		return part{name: "Kubernetes", where: "attached"}, nil
	}
	o := cluster.Options{
		Dir: filepath.Join(c.options.Dir, "kubernetes"), Kind: c.options.Cluster, Images: map[string]string{},
		Progress: c.options.Progress,
	}
	maps.Copy(o.Images, c.options.Images)
	where := string(cmp.Or(o.Kind, cluster.Embedded)) + ", pods as processes"
	if c.options.Node != nil {
		o.Kind, o.NodeSocket, where = cluster.Real, node.Socket(c.nodeDir()), "real, pods as containers"
	} else {
		platform := c.options.Binaries
		if platform == "" {
			var err error
			if platform, err = dataplane.Build(ctx); err != nil {
				return part{}, err
			}
		}
		o.Images[dataplane.Image] = cmp.Or(c.options.Images[dataplane.Image], platform)
	}
	k, err := cluster.Start(ctx, o)
	if err != nil {
		return part{}, err
	}
	c.cluster, c.Ready.Kubeconfig = k, k.Kubeconfig
	return part{name: "Kubernetes", where: where, close: k.Close, done: k.Done()}, nil
}

func (c *Cloud) startIssuer(ctx context.Context) (part, error) {
	i, err := issuer.Start(ctx, issuer.Options{
		AccessTTL: c.options.AccessTTL, Suggestions: []issuer.Session{
			adminOf(firstOrganization), memberOf(firstOrganization), adminOf(otherOrganization),
		},
		Names: map[string]string{
			adminOf(firstOrganization).Subject:  "Ada Lovelace",
			memberOf(firstOrganization).Subject: "Grace Hopper",
			adminOf(otherOrganization).Subject:  "Alan Turing",
		},
	})
	if err != nil {
		return part{}, err
	}
	c.Issuer, c.Ready.Issuer = i, i.URL()
	return part{name: "Identity issuer", where: i.URL(), close: i.Close}, nil
}

// secretsLag is how old the lists and metadata of the local Secret Manager are, as those of the service may be. It is
// longer than most steps of a story.
const secretsLag = 2 * time.Second

func (c *Cloud) startSecretManager(ctx context.Context) (part, error) {
	s, err := secretmanageremu.Start(ctx, secretmanageremu.Options{
		Lag: secretsLag, Quotas: secretmanageremu.Times(c.limitFactor()),
	})
	if err != nil {
		return part{}, err
	}
	c.Secrets = s
	return part{name: "Secret Manager", where: s.Addr, close: s.Close}, nil
}

func (c *Cloud) startMonitoring(ctx context.Context) (part, error) {
	m, err := monitoringemu.Start(ctx, monitoringemu.Options{})
	if err != nil {
		return part{}, err
	}
	c.Monitoring = m
	return part{name: "Cloud Monitoring", where: m.Addr, close: m.Close}, nil
}

func (c *Cloud) startStripe(ctx context.Context) (part, error) {
	if !c.options.Payments {
		return part{}, nil
	}
	s, err := stripeemu.Start(ctx, stripeemu.Options{Dir: filepath.Join(c.options.Dir, "stripe")})
	if err != nil {
		return part{}, err
	}
	s.Notify(c.Ready.BaseURL + "/api/v1/billing/webhooks/stripe")
	c.Stripe, c.Ready.StripeWebhookSecret = s, s.WebhookSecret
	return part{name: "Stripe", where: s.URL, close: s.Close, done: s.Done()}, nil
}

// measureEvery is the interval of measurements. In a real cluster it is a minute.
const measureEvery = 10 * time.Second

// startTelemetry runs after startRouter, which it reads from.
func (c *Cloud) startTelemetry(ctx context.Context) error {
	real := ""
	if c.Node != nil {
		real = node.Name
	}
	t, err := telemetry.Start(ctx, telemetry.Options{
		RealNode:   real,
		Kubeconfig: c.Ready.Kubeconfig,
		Selector:   "app.kubernetes.io/managed-by=agent-control-plane,app.kubernetes.io/name=agent",
		Router:     c.Router.Metrics, RouterNamespace: cell.GatewayNamespace,
		NamespaceOf: func(host string) (string, bool) {
			id, ok := agent.IDFromHostname(host, cellDomain)
			return agent.Namespace(id), ok
		},
		Feed: c.Monitoring.Feed, Project: c.Ready.ProjectID, Location: cellRegion, Cluster: cellName,
		Every: measureEvery,
	})
	if err != nil {
		return err
	}
	c.closeLater(t.Close)
	return nil
}

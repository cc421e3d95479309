// Command gate is the only way out of the agents of one cell that have a list of names: their name server, and the
// proxy of their connections. Its Google identity publishes counts, and reads brokered secrets and nothing else.
//
// GET /healthz on the port of metrics answers 200, and 503 after SIGTERM. The process listens only when it knows all
// agents.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"github.com/google/uuid"
	"github.com/sethvargo/go-envconfig"

	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/infra/gke/cellwatch"
	"agents.example/controlplane/infra/publicnet"
	"agents.example/controlplane/infra/pubsub"
	"agents.example/controlplane/infra/secretmanager"
	"agents.example/controlplane/shared/dataplane/gate"
	"agents.example/controlplane/shared/function"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	c, err := config.Read[config.Gate](ctx, envconfig.OsLookuper())
	level := slog.LevelInfo
	if c.Debug {
		level = slog.LevelDebug
	}
	slog.SetDefault(function.NewLogger(os.Stderr, level, c.ProjectID))
	if err == nil {
		err = serve(ctx, c)
	}
	if err != nil {
		slog.Error("serving failed", "error", err.Error())
		os.Exit(1)
	}
}

// serve watches the cell and serves its agents until ctx is done and the last connection has ended.
func serve(ctx context.Context, c config.Gate) (err error) {
	o, closeClients, err := options(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeClients()) }()
	cluster, err := cellwatch.Connect(c.Kubeconfig)
	if err != nil {
		return err
	}
	policies, err := cellwatch.NewPolicies(cluster)
	if err != nil {
		return err
	}
	o.Policies = policies
	g, err := gate.New(o)
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx)) // connections that end may need a policy
	var watch sync.WaitGroup
	watch.Go(func() { policies.Run(watching) })
	defer watch.Wait()
	defer stop()
	if err := policies.AwaitSync(ctx); err != nil {
		return err
	}
	l, err := listen(ctx, c)
	if err != nil {
		return err
	}
	slog.Info("serving", "dns", l.Packets.LocalAddr().String(), "http", l.HTTP.Addr().String(),
		"tls", l.TLS.Addr().String(), "metrics", l.Metrics.Addr().String())
	return g.Serve(ctx, l)
}

// options configures the gate, all but its policies. close ends its clients.
func options(ctx context.Context, c config.Gate) (o gate.Options, closeClients func() error, err error) {
	address, err := netip.ParseAddr(c.Address)
	if err != nil {
		return o, nil, fmt.Errorf("GATE_ADDRESS: %w", err)
	}
	dialer := publicnet.Dialer{Allow: func(a netip.Addr) bool {
		return slices.ContainsFunc(c.AllowedRanges, func(r netip.Prefix) bool { return r.Contains(a) })
	}}
	o = gate.Options{
		Address: address, Instance: uuid.NewString(), Timeouts: gate.Timeouts{DrainDelay: c.DrainDelay},
		Dial:        rooted{dialer}.dial,
		IsNotPublic: func(err error) bool { return errors.Is(err, publicnet.ErrNotPublic) },
	}
	publisher, err := pubsub.Open(ctx,
		pubsub.Options{ProjectID: c.ProjectID, Topic: c.EgressTopic, EmulatorHost: c.PubSubEmulator})
	if err != nil {
		return o, nil, err
	}
	o.Report, closeClients = publisher.ReportEgress, publisher.Close
	if c.CASecret == "" {
		return o, closeClients, nil
	}
	secrets, err := secretmanager.Open(ctx, secretmanager.Options{
		ProjectID: c.ProjectID, Environment: c.Environment, Endpoint: c.SecretManagerEmulator,
	})
	if err != nil {
		return o, nil, errors.Join(err, publisher.Close())
	}
	closeClients = func() error { return errors.Join(publisher.Close(), secrets.Close()) }
	if o.Secret, err = secrets.ReadNamed(ctx, c.CASecret); err != nil {
		return o, nil, errors.Join(err, closeClients())
	}
	o.Values = secrets
	return o, closeClients, nil
}

// rooted looks names up as they are: a domain to search would make other names of them.
type rooted struct{ publicnet.Dialer }

func (d rooted) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	return d.DialContext(ctx, network, net.JoinHostPort(host+".", port))
}

// listen opens the gate's ports.
func listen(ctx context.Context, c config.Gate) (l gate.Listeners, err error) {
	var open []interface{ Close() error }
	defer func() {
		for _, o := range open {
			if err != nil {
				err = errors.Join(err, o.Close())
			}
		}
	}()
	var config net.ListenConfig
	if l.Packets, err = config.ListenPacket(ctx, "udp", net.JoinHostPort(c.Host, c.DNSPort)); err != nil {
		return l, err
	}
	open = append(open, l.Packets)
	for _, of := range []struct {
		port string
		into *net.Listener
	}{{c.DNSPort, &l.Queries}, {c.HTTPPort, &l.HTTP}, {c.TLSPort, &l.TLS}, {c.MetricsPort, &l.Metrics}} {
		listener, err := config.Listen(ctx, "tcp", net.JoinHostPort(c.Host, of.port))
		if err != nil {
			return l, err
		}
		*of.into, open = listener, append(open, listener)
	}
	return l, nil
}

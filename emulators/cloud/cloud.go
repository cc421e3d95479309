// Package cloud runs the whole deployment on one machine: emulators of Google Cloud, a Kubernetes cluster whose pods
// run as processes, the data plane of one cell, and every function of the catalogue. It starts the parts and configures
// the functions with their addresses. It does not know how any part works.
package cloud

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/dataplane"
	"agents.example/controlplane/emulators/gcloud"
	"agents.example/controlplane/emulators/issuer"
	"agents.example/controlplane/emulators/monitoringemu"
	"agents.example/controlplane/emulators/node"
	"agents.example/controlplane/emulators/process"
	"agents.example/controlplane/emulators/pubsubemu"
	"agents.example/controlplane/emulators/secretmanageremu"
	"agents.example/controlplane/emulators/stripeemu"
	"agents.example/controlplane/shared/dataplane/gate"
	"agents.example/controlplane/shared/dataplane/router"
	"agents.example/controlplane/shared/image"
)

// Options configure Start. Only Dir is required.
type Options struct {
	// Dir holds logs and state. Required; only one cloud at a time may use it.
	Dir string
	// Addr is the address of the API; empty is a free port on the loopback interface.
	Addr string
	// Kubeconfig gives access to a cluster to use instead of a local one. Its pods must be reachable from this machine,
	// and Environment must set PLATFORM_IMAGE to an image that its nodes can pull.
	Kubeconfig string
	// Cluster is the kind of the local cluster's control plane; empty means embedded, or real with a Node.
	Cluster cluster.Kind
	// Node runs pods as containers of a real node, and the router as one of them. It needs Linux and root. Otherwise
	// nodes are simulated, and pods run as processes. Pods of Images do so with a real node, too.
	Node *NodeOptions
	// Emulators chooses between embedded and official emulators of Firestore and Pub/Sub.
	Emulators gcloud.Choice
	// AttachFirestore and AttachPubSub are the addresses of running emulators to use.
	AttachFirestore string
	AttachPubSub    string
	// Separate runs every function, the router and the notifier in separate processes, as when deployed. Otherwise all
	// run in this process.
	Separate bool
	// Grouped changes Separate to one process for each role, as the topology "group" of Terraform has services. Each
	// serves as many requests concurrently as an instance on Cloud Run, and roles get further processes as services get
	// instances.
	Grouped bool
	// Binaries is the directory of the binaries for separate processes, such as those of the image; empty builds them.
	Binaries string
	// Payments takes payments through an emulated Stripe. Otherwise the operator sets plans.
	Payments bool
	// BillingClock is the clock of accounts if all functions run in this process, for tests that skip days; nil is
	// time.Now.
	BillingClock func() time.Time
	// AccessTTL of the tokens that the web console gets; 0 is a minute, as of the identity provider.
	AccessTTL time.Duration
	// ProductionLimits enforces the documented rate limits. Otherwise they are 100 times higher.
	ProductionLimits bool
	// Environment changes the environment variables of the functions before they start, such as the address of a
	// service. Pub/Sub's pushes and schedules use the changed address, too. It may be nil.
	Environment func(env map[string]string) error
	// Wrap wraps the handler of all functions. It may be nil.
	Wrap func(functions http.Handler) http.Handler
	// Images maps further images to directories of programs that their pods run; see cluster.Options.
	Images map[string]string
	// Catalog has entries of the catalog of images. The reference of a version may be a name of Node.Images.
	Catalog []image.Image
	// RouterTimeouts changes the timeouts of a router in this process. The zero value is production's.
	RouterTimeouts router.Timeouts
	// NoNotifier runs no notifier: work continues when a sweep finds it.
	NoNotifier bool
	// NoSchedule runs no worker on a schedule. The test publishes the ticks.
	NoSchedule bool
	// ProductionDelivery makes Pub/Sub wait after failed deliveries as long as when deployed, up to 10 minutes.
	// Otherwise it waits at most 10 seconds.
	ProductionDelivery bool
	// Progress receives a line for each started part; it may be nil.
	Progress io.Writer
	// Deliveries is called for every Pub/Sub push; it may be nil.
	Deliveries func(pubsubemu.Delivery)
}

// Cloud is a running deployment.
type Cloud struct {
	// Ready has the addresses and credentials that a client needs.
	Ready Ready
	// Issuer issues tokens. Secrets and Monitoring inject faults and count calls.
	Issuer     *issuer.Issuer
	Secrets    *secretmanageremu.Server
	Monitoring *monitoringemu.Server
	// Stripe simulates customers and the passing of time; nil without payments.
	Stripe *stripeemu.Server
	// Router serves the agents' hostnames.
	Router *dataplane.Router
	// Node is the real node; nil if nodes are simulated.
	Node *node.Node
	// Model is the model provider that pods of the real node reach as ModelHost; nil if nodes are simulated.
	Model *Model
	// Client is an HTTP client that resolves agents' hostnames to this machine, as browsers do.
	Client *http.Client
	// Functions are the processes of separate functions; nil if they run in this process.
	Functions *Processes

	options    Options
	webhookKey []byte
	binaries   dataplane.Binaries // of separate processes
	env        map[string]string  // of the functions
	storage    string             // the address of Cloud Storage
	listener   net.Listener
	cluster    *cluster.Cluster // nil with a kubeconfig
	notifier   string           // the address that the notifier will listen on; empty without one
	gate       gate.Listeners   // of a gate in this process
	dispatcher *pubsubemu.Dispatcher
	died       chan error
	closers    []func() error
}

// Start starts every part and returns when the deployment serves. ctx bounds only the start.
func Start(ctx context.Context, o Options) (_ *Cloud, err error) {
	if err := o.checkNode(); err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Wrap == nil {
		o.Wrap = func(functions http.Handler) http.Handler { return functions }
	}
	c := &Cloud{options: o, webhookKey: make([]byte, 32), died: make(chan error, 1)}
	pepper := make([]byte, 32)
	_, _ = rand.Read(pepper) // crypto/rand never returns an error
	_, _ = rand.Read(c.webhookKey)
	c.Ready.APIKeyPepper = base64.StdEncoding.EncodeToString(pepper)
	c.Ready.ProjectID = "local-" + uuid.NewString()[:8]
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the state directory: %w", err)
	}
	addr := o.Addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	if c.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", addr); err != nil {
		return nil, fmt.Errorf("listen for the API: %w", err)
	}
	c.closeLater(func() error { return ignoreClosed(c.listener.Close()) })
	c.Ready.BaseURL = "http://" + c.listener.Addr().String()
	if o.Node == nil {
		if c.gate, err = dataplane.ListenGate(ctx); err != nil {
			return nil, err
		}
	}
	if !o.NoNotifier {
		ports, err := process.FreePorts(1)
		if err != nil {
			return nil, err
		}
		c.notifier = net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))
	}
	for _, step := range []func(context.Context) error{
		c.startParts, c.startNode, c.buildBinaries, c.grantAccess, c.startRouter, c.startTelemetry, c.serve,
		c.startDispatcher, c.startNotifier, c.startGate, c.startScheduler, c.seedOrganizations,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// closeLater makes Close call f, before the functions of parts that were started earlier.
func (c *Cloud) closeLater(f func() error) { c.closers = append(c.closers, f) }

// Close ends every part and waits until all have ended.
func (c *Cloud) Close() error {
	var errs []error
	for _, f := range slices.Backward(c.closers) {
		errs = append(errs, f())
	}
	c.closers = nil
	return errors.Join(errs...)
}

// Died receives an error when a part exits unexpectedly.
func (c *Cloud) Died() <-chan error { return c.died }

// Environment returns the environment variables of the functions.
func (c *Cloud) Environment() map[string]string { return maps.Clone(c.env) }

// watchPart reports an unexpected exit of a part.
func (c *Cloud) watchPart(name string, done <-chan struct{}) {
	if done == nil {
		return
	}
	go func() {
		<-done
		select {
		case c.died <- fmt.Errorf("%s exited unexpectedly; its log is in %s", name, c.options.Dir):
		default:
		}
	}()
}

func (c *Cloud) progress(format string, args ...any) {
	fmt.Fprintf(c.options.Progress, format+"\n", args...)
}

// dialTimeout bounds connecting to the local router.
const dialTimeout = 5 * time.Second

// newAgentClient returns a client that connects to the router for every hostname. Like the load balancer, it gives up
// an idle connection before the router does: a POST on a connection that the router is closing would be lost.
func newAgentClient(routerAddr string, timeouts router.Timeouts) *http.Client {
	dialer := net.Dialer{Timeout: dialTimeout}
	return &http.Client{
		Timeout: 30 * time.Second,
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, network, routerAddr)
			},
			IdleConnTimeout: cmp.Or(timeouts.Idle/2, time.Minute),
		},
	}
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Package cloud is the whole deployment on one machine: the stand-ins for Google Cloud, a real Kubernetes API, and
// every function of the catalogue. It knows how the parts are put together and which configuration tells each function
// where they are. It does not know how any part works.
package cloud

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/emulators/gateway"
	"agents.example/controlplane/emulators/gcloud"
	"agents.example/controlplane/emulators/issuer"
	"agents.example/controlplane/emulators/monitoringemu"
	"agents.example/controlplane/emulators/pubsubemu"
	"agents.example/controlplane/emulators/secretmanageremu"
	"agents.example/controlplane/emulators/stripeemu"
)

// Options says what to start. The zero value of all but Dir is usable.
type Options struct {
	// Dir takes logs and state. Required; only one cloud at a time may use it.
	Dir string
	// Addr is where the functions listen; empty is a free port on the loopback interface.
	Addr string
	// Kubeconfig is a cluster to use instead of a local one.
	Kubeconfig string
	// Emulators says whether Firestore and Pub/Sub are the official emulators or embedded.
	Emulators gcloud.Choice
	// AttachFirestore and AttachPubSub are addresses of running emulators to use.
	AttachFirestore string
	AttachPubSub    string
	// Separate runs every function in a process of its own behind a router, as it is deployed, instead of all in this
	// process.
	Separate bool
	// Binaries is the directory of the binaries to run separately, such as those of the image; empty builds them.
	Binaries string
	// Payments takes payments through a Stripe of this machine's; otherwise the operator sets plans.
	Payments bool
	// BillingClock is the clock of accounts in a cloud that runs in this process, so that days pass at once; nil is
	// time.Now.
	BillingClock func() time.Time
	// ProductionLimits enforces the documented rate limits instead of a hundred times them.
	ProductionLimits bool
	// Progress is told what is being waited for; nil is nobody.
	Progress io.Writer
	// Deliveries observes every push; it may be nil.
	Deliveries func(pubsubemu.Delivery)
}

// Cloud is a running deployment.
type Cloud struct {
	// Ready is what a client has to know.
	Ready Ready
	// Issuer mints tokens. Secrets and Monitoring take faults and count calls.
	Issuer     *issuer.Issuer
	Secrets    *secretmanageremu.Server
	Monitoring *monitoringemu.Server
	// Stripe plays customers and the passing of time; nil without payments.
	Stripe *stripeemu.Server
	// Gateway serves the agents' hostnames.
	Gateway *gateway.Gateway
	// Client is an HTTP client that reaches agents' hostnames, as a browser does on this machine.
	Client *http.Client
	// Functions are the processes of a cloud that runs them separately.
	Functions *Processes

	options    Options
	pepper     []byte
	listener   net.Listener
	dispatcher *pubsubemu.Dispatcher
	died       chan error
	closers    []func() error
}

// Start starts every part and returns when the deployment serves. ctx bounds the start.
func Start(ctx context.Context, o Options) (_ *Cloud, err error) {
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	c := &Cloud{options: o, pepper: make([]byte, 32), died: make(chan error, 1)}
	_, _ = rand.Read(c.pepper) // never fails: crypto/rand ends the process instead
	c.Ready.ProjectID = "local-" + uuid.NewString()[:8]
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the state directory: %w", err)
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
	for _, step := range []func(context.Context) error{c.startParts, c.startGateway, c.startTelemetry, c.serve,
		c.startDispatcher, c.startScheduler, c.seedOrganizations} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// closeLater has a part closed with the cloud, before those that were started earlier.
func (c *Cloud) closeLater(f func() error) { c.closers = append(c.closers, f) }

// Close ends every part and waits until all are gone.
func (c *Cloud) Close() error {
	var errs []error
	for _, f := range slices.Backward(c.closers) {
		errs = append(errs, f())
	}
	c.closers = nil
	return errors.Join(errs...)
}

// Died yields the error of a part that ended by itself.
func (c *Cloud) Died() <-chan error { return c.died }

// watchPart reports a part that ends by itself.
func (c *Cloud) watchPart(name string, done <-chan struct{}) {
	if done == nil {
		return
	}
	go func() {
		<-done
		select {
		case c.died <- fmt.Errorf("the %s ended by itself; its log is in %s", name, c.options.Dir):
		default:
		}
	}()
}

func (c *Cloud) progress(format string, args ...any) {
	fmt.Fprintf(c.options.Progress, format+"\n", args...)
}

// dialTimeout bounds reaching the local gateway.
const dialTimeout = 5 * time.Second

// newAgentClient is a client to which every name below localhost is this machine, as it is to browsers and curl.
func newAgentClient(gatewayAddr string) *http.Client {
	dialer := net.Dialer{Timeout: dialTimeout}
	return &http.Client{
		Timeout: 30 * time.Second,
		Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, gatewayAddr)
		}},
	}
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

package gke

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// connection connects to a cell when it is first needed, and again when that failed.
type connection struct {
	Cell
	// base is no call's context: it has no deadline, only what token sources take from a context.
	base context.Context
	// wrap sees every request, when it is set.
	wrap func(http.RoundTripper) http.RoundTripper

	mu     sync.Mutex
	client *client
	idle   func()
}

// open returns the cell's one client. Errors: Unavailable.
func (c *connection) open() (*client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		return c.client, nil
	}
	config, err := c.config()
	if err != nil {
		return nil, unavailable(fmt.Errorf("connect to cell %q: %w", c.Name, err))
	}
	tune(config, c.Name)
	if c.wrap != nil {
		config.Wrap(c.wrap)
	}
	config.Wrap(traced(c.Name))
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, unavailable(fmt.Errorf("connect to cell %q: %w", c.Name, err))
	}
	api, err := dynamic.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, unavailable(fmt.Errorf("connect to cell %q: %w", c.Name, err))
	}
	metadataAPI, err := metadata.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, unavailable(fmt.Errorf("connect to cell %q: %w", c.Name, err))
	}
	c.client = &client{cell: c.Name, api: api, metadata: metadataAPI}
	c.idle = func() { utilnet.CloseIdleConnectionsFor(httpClient.Transport) }
	return c.client, nil
}

func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle != nil {
		c.idle()
	}
}

func (c *connection) config() (*rest.Config, error) {
	if c.Kubeconfig != "" {
		return clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	}
	// The cluster knows the caller by its email address, which a token for the first scope alone does not tell.
	tokens, err := google.DefaultTokenSource(c.base, "https://www.googleapis.com/auth/cloud-platform",
		"https://www.googleapis.com/auth/userinfo.email")
	if err != nil {
		return nil, err
	}
	return endpointConfig(c.Endpoint, tokens), nil
}

func endpointConfig(endpoint string, tokens oauth2.TokenSource) *rest.Config {
	return &rest.Config{Host: endpoint, WrapTransport: func(base http.RoundTripper) http.RoundTripper {
		return authorized{&oauth2.Transport{Base: base, Source: tokens}}
	}}
}

// authorized adds a token to every request.
type authorized struct{ *oauth2.Transport }

// WrappedRoundTripper lets idle connections be closed.
func (a authorized) WrappedRoundTripper() http.RoundTripper { return a.Base }

// dialTimeout is far below callTimeout, so that a call still has time for a second attempt.
const dialTimeout = 3 * time.Second

// tune makes a configuration that of a server: the limits are the API server's to set, not the client's to guess.
func tune(config *rest.Config, cell string) {
	config.UserAgent = fieldManager
	config.QPS = -1 // client-go's own limit, 5 a second, makes provisioning 60 times slower; 429 is honoured without it
	config.WarningHandlerWithContext = warnings(cell)
	// A separate dialer gives the cell a separate transport, which notices dead connections. Otherwise endpoints with a
	// public certificate would use http.DefaultTransport, which does not.
	config.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
}

// traced makes a span of every request. The API server is told nothing of it: no propagator is set.
func traced(cell string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return spans{next, otelhttp.NewTransport(next,
			otelhttp.WithPropagators(propagation.NewCompositeTextMapPropagator()),
			otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string {
				return r.Method + " Kubernetes " +
					cell
			}))}
	}
}

// spans is a traced transport that still lets idle connections be closed.
type spans struct{ next, traced http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (s spans) RoundTrip(r *http.Request) (*http.Response, error) { return s.traced.RoundTrip(r) }

// WrappedRoundTripper lets idle connections be closed.
func (s spans) WrappedRoundTripper() http.RoundTripper { return s.next }

// warnings is the name of a cell whose API server's warnings are logged, such as that a field is deprecated.
type warnings string

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	const miscellaneous = 299 // the only code with which API servers warn
	if code == miscellaneous && text != "" {
		slog.WarnContext(ctx, "the API server warns", "cell", string(w), "warning", text)
	}
}

// Package connect configures connections to the API servers of cells: identity, dialing, warnings and trace spans. It
// sends no requests.
package connect

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// UserAgent names the control plane to API servers. It is also its field manager.
const UserAgent = "agent-control-plane"

// Cell is one cluster. It has either an Endpoint or a Kubeconfig.
type Cell struct {
	Name string
	// Endpoint is the DNS endpoint of a GKE cluster, reached with the process's own Google identity.
	Endpoint string
	// Kubeconfig is the path of a kubeconfig file.
	Kubeconfig string
}

// Config returns the configuration of connections to a cell. base has no deadline, only what token sources take from a
// context.
func Config(base context.Context, c Cell) (*rest.Config, error) {
	config, err := configOf(base, c)
	if err != nil {
		return nil, err
	}
	tune(config, c.Name)
	return config, nil
}

func configOf(base context.Context, c Cell) (*rest.Config, error) {
	if c.Kubeconfig != "" {
		return clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	}
	// The cluster knows the caller by its email address, which a token for the first scope alone does not tell.
	tokens, err := google.DefaultTokenSource(base, "https://www.googleapis.com/auth/cloud-platform",
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

// dialTimeout is far below the deadlines of calls, so that a call still has time for a second attempt.
const dialTimeout = 3 * time.Second

// tune makes a configuration that of a server: the limits are the API server's to set, not the client's to guess.
func tune(config *rest.Config, cell string) {
	config.UserAgent = UserAgent
	config.QPS = -1 // client-go's own limit, 5 a second, makes provisioning 60 times slower; 429 is honoured without it
	config.WarningHandlerWithContext = warnings(cell)
	// A separate dialer gives the cell a separate transport, which notices dead connections. Otherwise endpoints with a
	// public certificate would use http.DefaultTransport, which does not.
	config.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
}

// Traced makes a span of every request. The API server is told nothing of it: no propagator is set.
func Traced(cell string) func(http.RoundTripper) http.RoundTripper {
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

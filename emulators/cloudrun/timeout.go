package cloudrun

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"

	"agents.example/controlplane/shared/function"
)

// RouteTimeout is how long a service that runs a route answers a request at least, as terraform/services.tf configures
// it. A service of several functions has the longest of their timeouts.
func RouteTimeout(r function.Route) time.Duration { return r.Holds + time.Minute }

// WorkerTimeout is the same of a worker. It is also how long Pub/Sub waits for the answer to a push, as
// terraform/topics.tf configures it.
func WorkerTimeout(w function.Worker) time.Duration {
	if w.Schedule != "" {
		return 10 * time.Minute
	}
	return 30 * time.Second
}

// EndAfter ends the context of a request that takes longer than a timeout. A proxy of NewProxy then answers with 504,
// or breaks the connection if the answer has begun, as Cloud Run does.
func EndAfter(timeout time.Duration, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx, cancel := context.WithTimeout(req.Context(), timeout)
		defer cancel()
		h.ServeHTTP(w, req.WithContext(ctx))
	})
}

// NewProxy returns a proxy to a process at a port of this machine.
func NewProxy(port int) *httputil.ReverseProxy {
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "127.0.0.1:" + strconv.Itoa(port)})
	proxy.ErrorHandler = func(w http.ResponseWriter, req *http.Request, err error) {
		code := http.StatusBadGateway
		if errors.Is(req.Context().Err(), context.DeadlineExceeded) {
			code = http.StatusGatewayTimeout
		}
		slog.WarnContext(req.Context(), "an instance did not answer", "path", req.URL.Path, "error", err)
		w.WriteHeader(code)
	}
	return proxy
}

package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"github.com/GoogleCloudPlatform/functions-framework-go/funcframework"
)

const (
	// frameworkAttempts bounds how often another process may take the port before the framework listens on it.
	frameworkAttempts = 10
	// frameworkTimeout bounds how long the framework may take to start.
	frameworkTimeout = 10 * time.Second
)

// frameworkHandler returns the handler with which functions-framework serves h: it reads FUNCTION_TARGET and the other
// variables of the framework.
//
// The framework only offers a server without any timeout, and neither the server nor its handler. So frameworkHandler
// lets it serve on a loopback port, where the context of one request has the server, and closes that server again.
func frameworkHandler(ctx context.Context, h http.Handler) (http.Handler, error) {
	c := capture{handler: h, server: make(chan *http.Server, 1), captured: make(chan struct{})}
	// The handler is a mux with complete patterns, so it is registered for every path.
	if err := funcframework.RegisterHTTPFunctionContext(ctx, "/", c.serve); err != nil {
		return nil, fmt.Errorf("register the function: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, frameworkTimeout)
	defer cancel()
	var err error
	for range frameworkAttempts {
		var framework http.Handler
		if framework, err = c.start(ctx); !errors.Is(err, syscall.EADDRINUSE) {
			return framework, err
		}
	}
	return nil, err
}

// capture is the function that the framework serves.
type capture struct {
	handler http.Handler
	server  chan *http.Server // receives the framework's server
	// captured is closed when the framework's own server is closed.
	captured chan struct{}
}

func (c *capture) serve(w http.ResponseWriter, req *http.Request) {
	select {
	case <-c.captured:
		c.handler.ServeHTTP(w, req)
	default:
		server, _ := req.Context().Value(http.ServerContextKey).(*http.Server)
		select {
		case c.server <- server:
		default:
		}
	}
}

// start starts the framework's server on a free port, takes its handler and closes it.
func (c *capture) start(ctx context.Context) (http.Handler, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- funcframework.StartHostPort(loopback, port) }()
	requests, stop := context.WithCancel(ctx)
	defer stop()
	go send(requests, net.JoinHostPort(loopback, port))
	select {
	case server := <-c.server:
		if server == nil {
			return nil, errors.New("functions-framework does not serve with net/http")
		}
		err := server.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		if err != nil {
			return nil, fmt.Errorf("end the server of functions-framework: %w", err)
		}
		close(c.captured)
		return functionOf(server.Handler), nil
	case err := <-ended:
		return nil, fmt.Errorf("start functions-framework: %w", err)
	case <-ctx.Done():
		return nil, fmt.Errorf("start functions-framework: %w", ctx.Err())
	}
}

// functionOf returns the handler of the function behind the framework's mux, which would redirect paths with empty or
// dotted segments. The function answers them itself.
func functionOf(framework http.Handler) http.Handler {
	if mux, ok := framework.(*http.ServeMux); ok {
		h, _ := mux.Handler(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/"}})
		return h
	}
	return framework
}

const loopback = "127.0.0.1"

// freePort returns a port that no process listened on just now.
func freePort(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}

// send requests / until a server answers or ctx is done. It writes the request itself: an HTTP client would take longer
// to set up than the rest of the framework.
func send(ctx context.Context, address string) {
	const pause = time.Millisecond
	var dialer net.Dialer
	for ctx.Err() == nil {
		if conn, err := dialer.DialContext(ctx, "tcp", address); err == nil {
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			_, _ = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
			_, _ = io.Copy(io.Discard, conn)
			stop()
			_ = conn.Close()
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

package function_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
)

// pipes is a listener of connections in memory, whose deadlines follow the clock of a synctest bubble.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
	close  func()
}

func newPipes() *pipes {
	p := &pipes{accept: make(chan net.Conn), closed: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.closed) })
	return p
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error { p.close(); return nil }

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.accept <- server
	return client
}

// servePipes serves a handler as in production. It must be called in a synctest bubble.
func servePipes(t *testing.T, h http.Handler) *pipes {
	t.Helper()
	p, s := newPipes(), function.NewServer(h)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Serve(p) }()
	t.Cleanup(func() {
		_ = s.Close()
		<-ended
		<-time.After(time.Second) // net/http waits for half a second before it closes some connections
	})
	return p
}

// clientRequest is what a client sends: the header and the beginning of the body immediately, and then a chunk of the
// body in each interval until all of it is sent.
type clientRequest struct {
	method, path, token string
	length              int
	first, chunk        int
	interval            time.Duration
}

func (r clientRequest) header() string {
	method := r.method
	if method == "" {
		method = http.MethodPost
	}
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n",
		method, r.path, r.token, r.length)
}

// received is a response, and how long after the request it began.
type received struct {
	status int
	closes bool // the connection
	body   string
	took   time.Duration
}

func receive(from *bufio.Reader) (received, error) {
	res, err := http.ReadResponse(from, nil)
	if err != nil {
		return received{}, err
	}
	defer res.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(res.Body)
	return received{status: res.StatusCode, closes: res.Close, body: string(body)}, err
}

// do sends the request and returns the response.
func (r clientRequest) do(t *testing.T, p *pipes) received {
	t.Helper()
	var sending sync.WaitGroup
	defer sending.Wait()
	conn := p.dial()
	defer conn.Close() //nolint:errcheck // the test is over
	body := `{"text": "` + strings.Repeat("x", max(0, r.length-len(`{"text": ""}`))) + `"}`
	began := time.Now()
	sending.Go(func() {
		if _, err := io.WriteString(conn, r.header()+body[:r.first]); err != nil {
			return
		}
		for sent := r.first; sent < r.length && r.chunk > 0; sent += r.chunk {
			<-time.After(r.interval)
			if _, err := io.WriteString(conn, body[sent:min(sent+r.chunk, r.length)]); err != nil {
				return
			}
		}
	})
	res, err := receive(bufio.NewReader(conn))
	if err != nil {
		t.Fatalf("no response: %v", err)
	}
	res.took = time.Since(began)
	return res
}

// slowRoutes serves an authenticated and a public route with a body, and a worker.
func slowRoutes() http.Handler {
	answer := function.Handle(func(_ context.Context, in echoInput) (echo, error) { return echo{"ok"}, nil })
	route := function.Route{
		Name: "Authenticated", Method: http.MethodPost, Path: "/authenticated", Access: function.User,
		Status: http.StatusOK, Handle: answer,
	}
	public := route
	public.Name, public.Path, public.Access = "Public", "/public", function.Public
	large := route
	large.Name, large.Path, large.BodyLimit = "Large", "/large", 2<<20
	routes := serveRoutes(function.Guard{}, route, public, large)
	worker := function.Worker{Name: "Work", Handle: func(context.Context, function.Message) error { return nil }}
	mux := http.NewServeMux()
	mux.Handle("POST "+worker.Path(), worker.Handler(pushTokens{}))
	mux.Handle("/", routes)
	return mux
}

// pushTokens accepts the token "push".
type pushTokens struct{}

func (pushTokens) Verify(_ context.Context, token string) error {
	if token != "push" {
		return identity.InvalidToken()
	}
	return nil
}

package realnode

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"
)

// dialTimeout bounds a connection to a server of this machine.
const dialTimeout = 10 * time.Second

// Proxy is an HTTP CONNECT proxy at a Unix socket. It leads to the node's network through the node's socket, and to
// all other addresses directly. A nil Proxy serves no connections.
type Proxy struct {
	listener net.Listener
	node     string // socket of a CONNECT proxy in the node's network
}

// Listen replaces the socket of an earlier run.
func Listen(ctx context.Context, socket, node string) (*Proxy, error) {
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the socket of an earlier run: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listen for the API server's connections: %w", err)
	}
	return &Proxy{listener: listener, node: node}, nil
}

// Close ends a Proxy that does not serve.
func (p *Proxy) Close() {
	if p != nil {
		_ = p.listener.Close()
	}
}

// Serve serves until ctx ends, and ends all connections then.
func (p *Proxy) Serve(ctx context.Context) error {
	if p == nil {
		<-ctx.Done()
		return nil
	}
	stop := context.AfterFunc(ctx, func() { _ = p.listener.Close() })
	defer stop()
	var open sync.WaitGroup
	defer open.Wait()
	for {
		client, err := p.listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept the API server's connection: %w", err)
		}
		open.Go(func() { p.serve(ctx, client) })
	}
}

// serve serves one connection.
func (p *Proxy) serve(ctx context.Context, client net.Conn) {
	defer client.Close() //nolint:errcheck // it has ended
	defer context.AfterFunc(ctx, func() { _ = client.Close() })()
	requests := bufio.NewReader(client)
	request, err := http.ReadRequest(requests)
	if err != nil {
		return
	}
	if request.Method != http.MethodConnect {
		refuse(client, http.StatusMethodNotAllowed, errors.New("want CONNECT"))
		return
	}
	dialing, cancel := context.WithTimeout(ctx, dialTimeout)
	target, err := p.dial(dialing, request.Host)
	cancel()
	if err != nil {
		refuse(client, http.StatusBadGateway, err)
		return
	}
	defer target.Close() //nolint:errcheck // it has ended
	if _, err := io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(client, target)
		_ = client.Close() // ends the other direction
	})
	_, _ = io.Copy(target, requests)
	_ = target.Close() // ends the other direction, too
	back.Wait()
}

// refuse answers with the reason in the status line, which is all that the API server reports.
func refuse(client io.Writer, code int, reason error) {
	text := strings.NewReplacer("\r", " ", "\n", " ").Replace(reason.Error())
	_, _ = fmt.Fprintf(client, "HTTP/1.1 %d %s\r\nConnection: close\r\n\r\n", code, text)
}

// dial connects to host:port.
func (p *Proxy) dial(ctx context.Context, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if host == Name {
		return connect(ctx, p.node, net.JoinHostPort(Address().String(), port))
	}
	if ip, err := netip.ParseAddr(host); err == nil && network().Contains(ip.Unmap()) {
		return connect(ctx, p.node, address)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// connection is a tunnel through a proxy that may have sent bytes right after its answer.
type connection struct {
	net.Conn

	rest *bufio.Reader
}

// Read implements io.Reader.
func (c connection) Read(p []byte) (int, error) { return c.rest.Read(p) }

// connect connects to an address through the CONNECT proxy at a socket.
func connect(ctx context.Context, socket, address string) (_ net.Conn, err error) {
	proxy, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("node %s does not run: %w", Name, err)
	}
	defer func() {
		if err != nil {
			_ = proxy.Close()
		}
	}()
	// A node that does not answer must not hold the connection longer than ctx.
	defer context.AfterFunc(ctx, func() { _ = proxy.SetDeadline(time.Now()) })()
	if _, err := fmt.Fprintf(proxy, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", address, address); err != nil {
		return nil, fmt.Errorf("ask node %s for a connection: %w", Name, err)
	}
	answers := bufio.NewReader(proxy)
	answer, err := http.ReadResponse(answers, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return nil, fmt.Errorf("node %s does not answer: %w", Name, err)
	}
	_ = answer.Body.Close() // it has none
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("node %s cannot connect to %s: %s", Name, address, answer.Status)
	}
	return connection{Conn: proxy, rest: answers}, nil
}

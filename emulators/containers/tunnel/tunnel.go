// Package tunnel joins connections of different network namespaces, which Unix sockets connect.
package tunnel

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"
)

const dialTimeout = 5 * time.Second

// Dial opens a connection for one that was accepted.
type Dial func(ctx context.Context) (net.Conn, error)

// To returns a Dial to an address.
func To(network, address string) Dial {
	return func(ctx context.Context) (net.Conn, error) {
		dialer := net.Dialer{Timeout: dialTimeout}
		return dialer.DialContext(ctx, network, address)
	}
}

// Listen listens at a Unix socket, in place of one that an earlier process left there.
func Listen(ctx context.Context, path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the socket of an earlier run: %w", err)
	}
	return new(net.ListenConfig).Listen(ctx, "unix", path)
}

// Forward joins every connection that l accepts with one from dial, until ctx ends.
func Forward(ctx context.Context, l net.Listener, dial Dial) error {
	return serve(ctx, l, func(in net.Conn) {
		out, err := dial(ctx)
		if err != nil {
			return
		}
		defer out.Close() //nolint:errcheck // the connection is over
		Join(in, out)
	})
}

// SourceHeader names the address of this system that a connection comes from.
const SourceHeader = "X-Source"

// Connect is an HTTP proxy for CONNECT requests until ctx ends. Names translates hosts; source is the address that
// connections come from unless a request names another, and may be invalid.
func Connect(ctx context.Context, l net.Listener, names map[string]netip.Addr, source netip.Addr) error {
	return serve(ctx, l, func(in net.Conn) {
		r := bufio.NewReader(in)
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if req.Method != http.MethodConnect {
			answer(in, http.StatusMethodNotAllowed)
			return
		}
		out, err := dial(ctx, req, names, source)
		if err != nil {
			answer(in, http.StatusBadGateway)
			return
		}
		defer out.Close() //nolint:errcheck // the connection is over
		answer(in, http.StatusOK)
		Join(&buffered{in, r}, out)
	})
}

func dial(ctx context.Context, req *http.Request, names map[string]netip.Addr, source netip.Addr) (net.Conn, error) {
	host, port, err := net.SplitHostPort(req.Host)
	if err != nil {
		return nil, err
	}
	if address, ok := names[host]; ok {
		host = address.String()
	}
	if text := req.Header.Get(SourceHeader); text != "" {
		if source, err = netip.ParseAddr(text); err != nil {
			return nil, err
		}
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	if source.IsValid() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
	}
	return dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
}

func answer(w io.Writer, status int) {
	// A client that is gone reads nothing.
	_, _ = fmt.Fprintf(w, "HTTP/1.1 %d %s\r\n\r\n", status, http.StatusText(status))
}

// buffered is a connection of which a reader has read ahead.
type buffered struct {
	net.Conn
	r io.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.r.Read(p) }

// CloseWrite ends what is sent, and leaves what is received open.
func (b *buffered) CloseWrite() error { return closeWrite(b.Conn) }

func closeWrite(c io.Writer) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Join copies between two connections until both have ended.
func Join(a, b net.Conn) {
	var both sync.WaitGroup
	pipe := func(to, from net.Conn) {
		_, err := io.Copy(to, from)
		if err == nil {
			err = closeWrite(to)
		}
		if err != nil { // the other direction is of no use any more
			_ = to.Close()
			_ = from.Close()
		}
	}
	both.Go(func() { pipe(a, b) })
	both.Go(func() { pipe(b, a) })
	both.Wait()
}

// serve handles each connection in a goroutine, and closes it afterwards.
func serve(ctx context.Context, l net.Listener, handle func(net.Conn)) error {
	var open sync.WaitGroup
	defer open.Wait()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		in, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accept at %s: %w", l.Addr(), err)
		}
		open.Go(func() {
			defer in.Close() //nolint:errcheck // the connection is over
			defer context.AfterFunc(ctx, func() { _ = in.Close() })()
			handle(in)
		})
	}
}

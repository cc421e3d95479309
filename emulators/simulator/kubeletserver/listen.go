package kubeletserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Port is the port of kubelets.
const Port = 10250

// blockBits is the size of a cluster's block of loopback addresses: 127.x.0.0/16.
const blockBits = 16

// Endpoint is where the kubelets of a cluster listen.
type Endpoint struct {
	Listener net.Listener
	Address  netip.AddrPort
	// Block is the block of loopback addresses that only this cluster uses as long as it listens. It is invalid where
	// the operating system has only 127.0.0.1.
	Block netip.Prefix
}

// Listen listens at the first address of a block of loopback addresses that no other cluster of this machine uses.
// Where the operating system has only 127.0.0.1, it listens there, on a free port.
func Listen(ctx context.Context) (Endpoint, error) {
	first := rand.IntN(254)
	for i := range 254 {
		block := netip.PrefixFrom(netip.AddrFrom4([4]byte{127, byte(1 + (first+i)%254), 0, 0}), blockBits)
		address := netip.AddrPortFrom(block.Addr().Next(), Port)
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address.String())
		switch {
		case err == nil:
			return Endpoint{Listener: listener, Address: address, Block: block}, nil
		case errors.Is(err, syscall.EADDRNOTAVAIL):
			return listenAnywhere(ctx)
		case !errors.Is(err, syscall.EADDRINUSE):
			return Endpoint{}, fmt.Errorf("listen for the kubelets: %w", err)
		}
	}
	return Endpoint{}, errors.New("listen for the kubelets: other programs use port " + strconv.Itoa(Port) +
		" of all loopback addresses")
}

func listenAnywhere(ctx context.Context) (Endpoint, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return Endpoint{}, fmt.Errorf("listen for the kubelets: %w", err)
	}
	return Endpoint{Listener: listener, Address: listener.Addr().(*net.TCPAddr).AddrPort()}, nil
}

// lingerTime bounds how long a closed connection takes what its client still sends.
const lingerTime = 10 * time.Second

// lingering closes connections in two steps, until ctx ends. A command may end before its input does. If its connection
// were closed with input that was not read, TCP would reset it, and an API server that cannot pass on the rest of the
// input gives up the connection with the output that it has not passed on yet.
type lingering struct {
	net.Listener
	ctx context.Context
}

func (l lingering) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &lingeringConn{Conn: c, ctx: l.ctx}, nil
}

type lingeringConn struct {
	net.Conn
	ctx     context.Context //nolint:containedctx // of the server
	closed  atomic.Bool
	reading sync.Mutex
}

func (c *lingeringConn) Read(b []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Read(b)
	if err != nil && c.closed.Load() {
		err = net.ErrClosed
	}
	return n, err
}

// Close ends the output, and leaves the input to be read and dropped until the client has read the output and left.
func (c *lingeringConn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || c.ctx.Err() != nil || half.CloseWrite() != nil {
		return c.Conn.Close()
	}
	stop := context.AfterFunc(c.ctx, func() { _ = c.Conn.Close() })
	_ = c.SetReadDeadline(time.Now()) // ends a call of Read
	go func() {
		defer stop()
		c.reading.Lock()   // once it has ended; later ones read nothing
		c.reading.Unlock() //nolint:staticcheck // empty
		if c.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
			_, _ = io.Copy(io.Discard, c.Conn)
		}
		_ = c.Conn.Close()
	}()
	return nil
}

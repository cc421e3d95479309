//go:build unix

// Package proxy stands between the control plane and the services that it calls. TCP refuses or hangs the connections
// to a service. GRPC and Kubernetes show every call that may change something to a Tap, before and after the change.
//
// It does not know what the calls mean, and keeps no state of the services.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"

	"agents.example/controlplane/emulators/process"
)

// TCP forwards connections to a service. Its methods are safe for concurrent use.
type TCP struct {
	// Addr is the address (host:port) to call instead of the service.
	Addr   string
	target string

	mu       sync.Mutex
	changed  *sync.Cond // signals the end of a hang, and a new connection
	hung     bool
	closed   bool
	listener net.Listener
	open     map[net.Conn]bool
	running  sync.WaitGroup
}

// StartTCP forwards connections to the target (host:port).
func StartTCP(target string) (*TCP, error) {
	port, err := process.FreePort()
	if err != nil {
		return nil, err
	}
	p := &TCP{Addr: "127.0.0.1:" + strconv.Itoa(port), target: target, open: map[net.Conn]bool{}}
	p.changed = sync.NewCond(&p.mu)
	return p, p.listen()
}

func (p *TCP) listen() error {
	listener, err := net.Listen("tcp", p.Addr) //nolint:noctx // returns immediately
	if err != nil {
		return fmt.Errorf("listen in front of %s: %w", p.target, err)
	}
	p.listener = listener
	p.running.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.forward(connection) })
		}
	})
	return nil
}

// Refuse closes all connections and refuses new ones until Restore.
func (p *TCP) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse()
}

// refuse runs with the lock.
func (p *TCP) refuse() {
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	for connection := range p.open {
		_ = connection.Close()
	}
	clear(p.open)
	p.changed.Broadcast()
}

// Hang accepts connections until Restore, but passes no byte on. Restore passes on what was sent in between.
func (p *TCP) Hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hung = true
}

// Restore ends what Refuse and Hang began.
func (p *TCP) Restore() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hung = false
	p.changed.Broadcast()
	if p.listener != nil || p.closed {
		return nil
	}
	return p.listen()
}

// AwaitConnection waits until a connection is open. A client that was refused connects again by itself, after a while.
func (p *TCP) AwaitConnection(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.changed.Broadcast()
	})()
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.open) == 0 {
		if ctx.Err() != nil {
			return fmt.Errorf("no client connects to %s: %w", p.target, context.Cause(ctx))
		}
		p.changed.Wait()
	}
	return nil
}

// Close closes all connections and waits until their goroutines have ended.
func (p *TCP) Close() error {
	p.mu.Lock()
	p.closed, p.hung = true, false
	p.refuse()
	p.mu.Unlock()
	p.running.Wait()
	return nil
}

func (p *TCP) forward(from net.Conn) {
	to, err := net.Dial("tcp", p.target) //nolint:noctx // the target is on this machine
	if err != nil {
		_ = from.Close()
		return
	}
	if !p.register(from, to) {
		return
	}
	defer p.release(from, to)
	var back sync.WaitGroup
	back.Go(func() { p.copy(from, to) })
	p.copy(to, from)
	back.Wait()
}

// register adds connections to those that Refuse closes. It closes them if the proxy refuses already.
func (p *TCP) register(connections ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range connections {
		if p.listener == nil {
			_ = c.Close()
			continue
		}
		p.open[c] = true
	}
	p.changed.Broadcast()
	return p.listener != nil
}

func (p *TCP) release(connections ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range connections {
		_ = c.Close()
		delete(p.open, c)
	}
}

// copy copies until either side ends, and then ends both.
func (p *TCP) copy(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.awaitFlow()
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	_, _ = from.Close(), to.Close()
}

// awaitFlow waits for the end of a hang.
func (p *TCP) awaitFlow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.hung && p.listener != nil {
		p.changed.Wait()
	}
}

// ignoreClosed returns the error of a server, unless the server was closed.
func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

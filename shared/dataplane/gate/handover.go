package gate

import (
	"net"
	"sync"
)

// handover is a listener of connections that another part of the gate has accepted.
type handover struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

func newHandover() handover {
	h := handover{conns: make(chan net.Conn), closed: make(chan struct{})}
	h.close = sync.OnceFunc(func() { close(h.closed) })
	return h
}

// give hands a connection over. It returns false if no server takes it any more.
func (h handover) give(c net.Conn) bool {
	select {
	case h.conns <- c:
		return true
	case <-h.closed:
		return false
	}
}

// Accept implements net.Listener.
func (h handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h handover) Close() error {
	h.close()
	return nil
}

// Addr implements net.Listener.
func (handover) Addr() net.Addr { return &net.TCPAddr{} }

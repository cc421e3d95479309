// Package nettest has network addresses and servers for tests.
package nettest

import (
	"net"
	"net/netip"
	"testing"
)

// Refusing returns an address of 127.0.0.1 that refuses connections until the test ends. A connection is bound to its
// port, so the system gives it to no other program, test or connection. The port of a listener that was closed would
// soon be that of a parallel test.
func Refusing(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	// A connection gets its port before it connects only if its address is given. Otherwise other connections may share
	// the port, also one that connects to itself.
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}
	conn, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.LocalAddr().(*net.TCPAddr).AddrPort()
}

package nettest_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"agents.example/controlplane/shared/nettest"
)

func TestRefusing_RefusesConnectionsAndCannotBeTaken(t *testing.T) {
	t.Parallel()
	address := nettest.Refusing(t).String()
	if conn, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("Dial = %v, %v, want ECONNREFUSED", conn, err)
	}
	if l, err := net.Listen("tcp", address); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("Listen = %v, %v, want EADDRINUSE", l, err)
	}
}

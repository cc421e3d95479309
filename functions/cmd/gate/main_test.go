package main

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"

	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/infra/publicnet"
)

// TestDial_LooksUpTheNameItself: with a domain to search, or a name of the cluster, another host would be meant. What
// is found must be public.
func TestDial_LooksUpTheNameItself(t *testing.T) {
	t.Parallel()
	var asked []string
	d := rooted{publicnet.Dialer{Find: func(_ context.Context, _, host string) ([]netip.Addr, error) {
		asked = append(asked, host)
		return []netip.Addr{netip.MustParseAddr("10.0.0.7")}, nil
	}}}
	if _, err := d.dial(t.Context(), "tcp", "kubernetes.default.svc:443"); !errors.Is(err, publicnet.ErrNotPublic) {
		t.Errorf("error %v, want %v", err, publicnet.ErrNotPublic)
	}
	if len(asked) != 1 || asked[0] != "kubernetes.default.svc." {
		t.Errorf("looked up %q, want the name with its dot", asked)
	}
}

// TestListen_ClosesWhatItOpened: a port that is taken leaves none of the others taken.
func TestListen_ClosesWhatItOpened(t *testing.T) {
	t.Parallel()
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	c := config.Gate{Host: "127.0.0.1", DNSPort: "0", HTTPPort: "0", TLSPort: "0", MetricsPort: port}
	if _, err := listen(t.Context(), c); err == nil {
		t.Fatal("a port was listened on twice")
	}
	c.MetricsPort = "0"
	l, err := listen(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, closer := range []interface{ Close() error }{l.Packets, l.Queries, l.HTTP, l.TLS, l.Metrics} {
		if err := closer.Close(); err != nil {
			t.Error(err)
		}
	}
}

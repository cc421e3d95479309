package gate_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/dataplane/gate"
	"agents.example/controlplane/shared/egress"
)

// TestDrain_FinishesWhatMoves: requests get their answers, connections that are silent end, and counts are reported.
func TestDrain_FinishesWhatMoves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *gate.Options) { o.Timeouts.TunnelIdle = 200 * time.Millisecond })
	release := make(chan struct{})
	w.serveHTTP(t, "slow.example", func(rw http.ResponseWriter, _ *http.Request) {
		<-release
		_, _ = io.WriteString(rw, "done")
	})
	w.host("api.example:443", echo(t))
	w.set(agentAddress, agentID, allow("*"))
	finished := make(chan answer, 1)
	go func() { finished <- get(t, w.client(t, agentAddress, nil), "http://slow.example/") }()
	eventually(t, "the request to arrive", func() bool { return w.dials("slow.example:80") == 1 })
	sent := hello(t, "api.example")
	silent, busy := w.open(t, agentAddress, w.tls), w.open(t, agentAddress, w.tls)
	for _, c := range []io.ReadWriter{silent, busy} {
		_, _ = c.Write(sent)
		if _, err := io.ReadFull(c, make([]byte, len(sent))); err != nil {
			t.Fatal(err)
		}
	}
	w.stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, silent)
	}()
	for moves := true; moves; {
		_, errSent := busy.Write([]byte("x"))
		if _, err := io.ReadFull(busy, make([]byte, 1)); err != nil || errSent != nil {
			t.Fatalf("a connection that moves ended: %v, %v", errSent, err)
		}
		select {
		case <-ended:
			moves = false
		default:
		}
	}
	if c, err := from(agentAddress).DialContext(t.Context(), "tcp", w.tls); err == nil {
		_ = c.Close()
		t.Error("the gate accepts connections while it drains")
	}
	close(release)
	if got := <-finished; got.body != "done" {
		t.Errorf("answer %+v, want the host's", got)
	}
	_ = busy.Close()
	w.end()
	if got := w.counted(agentID, "api.example"); got.Used != 2 || got.Refused != 0 {
		t.Errorf("counted %+v, want two uses", got)
	}
	if got := w.counted(agentID, "slow.example"); got.Used != 1 {
		t.Errorf("counted %+v, want a use", got)
	}
}

// TestDrain_Ends: nothing delays it for longer than Drain.
func TestDrain_Ends(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *gate.Options) { o.Timeouts.Drain = 10 * time.Millisecond })
	for _, o := range streams(t, w) {
		defer func() {
			if _, err := io.ReadAll(o.body); err == nil {
				t.Errorf("%s: the stream ended as if it was complete", o.name)
			}
		}()
	}
	w.end()
}

// TestDrain_EndsSilentWebSockets, which no http.Server knows.
func TestDrain_EndsSilentWebSockets(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *gate.Options) { o.Timeouts.Drain = 10 * patience })
	for _, c := range sockets(t, w) {
		defer func() {
			if _, _, err := c.Read(t.Context()); err == nil {
				t.Error("a WebSocket is open after the gate ended")
			}
			_ = c.CloseNow()
		}()
	}
	w.stop()
	select {
	case err := <-w.ended:
		w.ended <- err
	case <-time.After(patience):
		t.Fatal("the gate waits for WebSockets that are silent")
	}
}

func TestMetrics_NameNoAgentAndNoHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host("api.example:443", echo(t))
	w.set(agentAddress, agentID, allow("api.example"))
	c := w.open(t, agentAddress, w.tls)
	_, _ = c.Write(hello(t, "other.example"))
	_, _ = io.Copy(io.Discard, c)
	c = w.open(t, agentAddress, w.tls)
	sent := hello(t, "api.example")
	_, _ = c.Write(sent)
	if _, err := io.ReadFull(c, make([]byte, len(sent))); err != nil {
		t.Fatal(err)
	}
	ask(t, w.asks(t, agentAddress), question(t, "other.example.", 1))
	var got answer
	scraper := &http.Client{Transport: new(http.Transport)}
	defer scraper.CloseIdleConnections()
	eventually(t, "one connection", func() bool {
		got = get(t, scraper, "http://"+w.metrics+"/metrics")
		return strings.Contains(got.body, "\ngate_connections 1\n")
	})
	for _, line := range []string{
		`gate_refused_total{reason="not_listed"} 1`, `gate_dns_queries_total{outcome="refused"} 1`,
		`gate_report_failures_total 0`, `gate_value_reads_total{result="read"} 0`, `gate_requests_in_flight 0`,
	} {
		if !strings.Contains(got.body, "\n"+line+"\n") {
			t.Errorf("the metrics lack %q", line)
		}
	}
	if strings.Contains(got.body, "example") || strings.Contains(got.body, agentID) {
		t.Error("a metric has the name of a host or an agent")
	}
}

// TestCounts_OfUnreachableHosts: the gate did forward there, as far as it could.
func TestCounts_OfUnreachableHosts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set(agentAddress, agentID, allow("*"))
	w.host("private.example:443", "private")
	w.host("private.example:80", "private")
	c := w.client(t, agentAddress, nil)
	for _, host := range []string{"gone.example", "private.example"} {
		get(t, c, "http://"+host+"/")
		s := w.open(t, agentAddress, w.tls)
		_, _ = s.Write(hello(t, host))
		_, _ = io.Copy(io.Discard, s)
	}
	c.CloseIdleConnections()
	w.end()
	if got := w.counted(agentID, "gone.example"); got.Used != 2 || got.Refused != 0 {
		t.Errorf("counted %+v of a host that is gone, want two uses", got)
	}
	got := w.counted(agentID, "private.example")
	if got.Used != 0 || got.Refused != 2 || got.Reason != egress.NotPublic {
		t.Errorf("counted %+v of a private host, want two refusals", got)
	}
}

func TestNew_RefusesWhatItCannotServe(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*gate.Options){
		"address of IPv6":     func(o *gate.Options) { o.Address = netip.IPv6Loopback() },
		"short secret":        func(o *gate.Options) { o.Secret = secret[1:] },
		"no policies":         func(o *gate.Options) { o.Policies = nil },
		"no way out":          func(o *gate.Options) { o.Dial = nil },
		"reports of no one":   func(o *gate.Options) { o.Instance = "" },
		"(all as it must be)": func(*gate.Options) {},
	} {
		o := gate.Options{
			Address: netip.MustParseAddr(gateAddress), Policies: newDirectory(), Secret: secret, Instance: "gate-1",
			Dial:   new(net.Dialer).DialContext,
			Report: func(context.Context, egress.Reports) error { return nil },
		}
		change(&o)
		if _, err := gate.New(o); (err == nil) != strings.HasPrefix(name, "(") {
			t.Errorf("%s: New = %v", name, err)
		}
	}
}

package gate

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/egress"
)

// nothing is the Policies of an empty cell.
type nothing struct{}

func (nothing) Lookup(netip.Addr) (Agent, bool) { return Agent{}, false }
func (nothing) Changed() <-chan struct{}        { return nil }

// offline returns a gate without a network.
func offline(t testing.TB, o Options) *Gate {
	t.Helper()
	o.Address = netip.MustParseAddr("34.118.224.53")
	o.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no network") }
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// publisher takes reports, or fails.
type publisher struct {
	mu       sync.Mutex
	fails    bool
	messages []egress.Reports
}

func (p *publisher) report(_ context.Context, r egress.Reports) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fails {
		return errors.New("not now")
	}
	p.messages = append(p.messages, r)
	return nil
}

// take returns what was reported since the last call.
func (p *publisher) take() []egress.Reports {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.messages
	p.messages = nil
	return taken
}

// reporting starts a gate that only reports. It is for virtual time.
func reporting(t *testing.T, p *publisher) (g *Gate, stop func()) {
	t.Helper()
	g = offline(t, Options{Policies: nothing{}, Report: p.report, Instance: "gate-1"})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.reportCounts(ctx)
	}()
	return g, func() {
		cancel()
		<-done
	}
}

func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestReport_IsSoonForHostsThatAreNew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := new(publisher)
		g, stop := reporting(t, p)
		g.counts.used("a", "one.example")
		wait(10 * time.Second)
		if got := p.take(); len(got) != 1 || got[0].Gate != "gate-1" || got[0].Reports[0].Hosts[0].Used != 1 {
			t.Errorf("reported %+v within 10 s, want the new host", got)
		}
		g.counts.used("a", "one.example")
		wait(time.Minute)
		if got := p.take(); len(got) != 0 {
			t.Errorf("reported %+v, want a known host later", got)
		}
		g.counts.refused("a", "one.example", egress.Denied)
		wait(10 * time.Second)
		if got := p.take(); len(got) != 1 || got[0].Reports[0].Hosts[0].Refused != 1 {
			t.Errorf("reported %+v within 10 s, want the first refusal", got)
		}
		g.counts.used("a", "one.example")
		wait(10 * time.Minute)
		if got := p.take(); len(got) != 1 || got[0].Reports[0].Hosts[0].Used != 3 {
			t.Errorf("reported %+v within 10 minutes, want all that was counted", got)
		}
		wait(time.Hour)
		if got := p.take(); len(got) != 0 {
			t.Errorf("reported %+v without a change", got)
		}
		g.counts.used("a", "one.example")
		stop()
		if got := p.take(); len(got) != 1 || got[0].Reports[0].Hosts[0].Used != 4 {
			t.Errorf("reported %+v at the end, want what was left", got)
		}
	})
}

func TestReport_RepeatsWhatFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &publisher{fails: true}
		g, stop := reporting(t, p)
		defer stop()
		g.counts.used("a", "one.example")
		g.counts.used("b", "one.example")
		wait(time.Hour)
		p.mu.Lock()
		p.fails = false
		p.mu.Unlock()
		wait(10 * time.Second)
		if got := p.take(); len(got) != 1 || len(got[0].Reports) != 2 {
			t.Errorf("reported %+v, want both agents", got)
		}
	})
}

func TestReport_KeepsToTheSizeOfMessages(t *testing.T) {
	t.Parallel()
	p := new(publisher)
	g, stop := reporting(t, p)
	for agent := range 20 {
		for host := range egress.MaxCountedHosts + 50 {
			name := fmt.Sprint(strings.Repeat("a.", 100), "host-", host)
			g.counts.refused(fmt.Sprint("agent-", agent), name, egress.NotListed)
		}
	}
	stop()
	reports := 0
	for _, m := range p.take() {
		text, err := json.Marshal(m)
		if err != nil || len(text) > maxMessage {
			t.Errorf("a message has %d bytes, %v; want %d at most", len(text), err, maxMessage)
		}
		for _, r := range m.Reports {
			reports++
			others := int64(0)
			for _, h := range r.Hosts {
				if h.Host == egress.OtherHosts {
					others = h.Refused
				}
			}
			if len(r.Hosts) != egress.MaxCountedHosts+1 || others != 50 {
				t.Errorf("%d hosts and %d of others, want %d and 50", len(r.Hosts), others, egress.MaxCountedHosts+1)
			}
		}
	}
	if reports != 20 {
		t.Errorf("%d agents were reported, want 20", reports)
	}
}

func TestCounts_ForgetDaysThatAreOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := new(publisher)
		g, stop := reporting(t, p)
		defer stop()
		days := map[string]bool{}
		for range 5 {
			g.counts.used("a", "one.example")
			wait(24 * time.Hour)
			for _, m := range p.take() {
				days[m.Reports[0].Day] = true
			}
		}
		g.counts.mu.Lock()
		defer g.counts.mu.Unlock()
		if len(days) != 5 || len(g.counts.tallies) > 1 || g.counts.hosts != len(g.counts.tallies) {
			t.Errorf("%d days were reported, %d are kept with %d hosts; want 5, and the last one", len(days),
				len(g.counts.tallies), g.counts.hosts)
		}
	})
}

// vault is the Values of tests.
type vault struct {
	reads int
	wait  chan struct{}
	err   error
}

func (v *vault) Value(context.Context, string, string, int64) (string, error) {
	v.reads++
	if v.wait != nil {
		<-v.wait
	}
	return "the value", v.err
}

func brokering(t *testing.T, v Values) *Gate {
	t.Helper()
	return offline(t, Options{Policies: nothing{}, Values: v, Secret: make([]byte, minSecret)})
}

// TestValues_AreGoneAfterFiveMinutes, also without a request that would notice.
func TestValues_AreGoneAfterFiveMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := new(vault)
		g := brokering(t, v)
		k := valueKey{agentID: "a", key: "K", version: 1}
		began := time.Now()
		for range 3 {
			if got, err := g.values.value(t.Context(), k); got != "the value" || err != nil {
				t.Fatalf("value = %q, %v", got, err)
			}
			wait(time.Minute)
		}
		if v.reads != 1 {
			t.Errorf("%d reads in three minutes, want one", v.reads)
		}
		wait(time.Until(began.Add(5*time.Minute - sweepEvery)))
		g.sweep(time.Now()) // the last one before the five minutes are over
		if len(g.values.known) != 0 {
			t.Errorf("%+v is kept for five minutes", g.values.known)
		}
		if _, err := g.values.value(t.Context(), k); err != nil || v.reads != 2 {
			t.Errorf("%d reads, %v; want another one", v.reads, err)
		}
	})
}

func TestValues_AreReadOnceForAllThatWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vault{wait: make(chan struct{})}
		g := brokering(t, v)
		k := valueKey{agentID: "a", key: "K", version: 1}
		canceled, cancel := context.WithCancel(t.Context())
		results := make(chan error, 10)
		for i := range cap(results) {
			ctx := t.Context()
			if i == 0 {
				ctx = canceled
			}
			go func() {
				_, err := g.values.value(ctx, k)
				results <- err
			}()
			synctest.Wait()
		}
		cancel()
		synctest.Wait()
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("a canceled request got %v", err)
		}
		close(v.wait)
		for range cap(results) - 1 {
			if err := <-results; err != nil {
				t.Errorf("a request that waited got %v", err)
			}
		}
		if v.reads != 1 {
			t.Errorf("%d reads, want one", v.reads)
		}
	})
}

func TestValues_AskAgainAfterAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vault{err: errors.New("down")}
		g := brokering(t, v)
		k := valueKey{agentID: "a", key: "K", version: 1}
		for range 100 {
			if got, err := g.values.value(t.Context(), k); err == nil || got != "" {
				t.Fatalf("value = %q, %v; want a failure", got, err)
			}
		}
		if v.reads != 1 {
			t.Errorf("%d reads in no time, want one", v.reads)
		}
		wait(failureTime)
		v.err = nil
		if _, err := g.values.value(t.Context(), k); err != nil {
			t.Errorf("value: %v after the failure", err)
		}
	})
}

func TestValues_AreBounded(t *testing.T) {
	t.Parallel()
	g := brokering(t, new(vault))
	for i := range maxValues + 10 {
		if _, err := g.values.value(t.Context(), valueKey{agentID: "a", version: int64(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if len(g.values.known) != maxValues {
		t.Errorf("%d values are kept, want %d", len(g.values.known), maxValues)
	}
}

func TestLeaves_AreRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := brokering(t, new(vault))
		at := func(after time.Duration) *tls.Config {
			wait(after)
			c, err := g.leaves.config("a", "api.example")
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		first := at(0)
		if at(time.Hour) != first {
			t.Error("a certificate was made again within the hour")
		}
		renewed := at(leafTime / 2)
		if renewed == first {
			t.Error("a certificate was not renewed")
		}
		wait(leafTime)
		g.sweep(time.Now())
		if len(g.leaves.known) != 0 {
			t.Errorf("%d certificates are kept after their time", len(g.leaves.known))
		}
	})
}

func TestTenants_AreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := brokering(t, new(vault))
		busy := g.tenants.of("busy")
		busy.requests.Add(1)
		g.tenants.of("idle")
		wait(tenantTime + time.Second)
		g.sweep(time.Now())
		if len(g.tenants.byID) != 1 || g.tenants.of("busy") != busy {
			t.Errorf("%d tenants are kept, want the one with a request", len(g.tenants.byID))
		}
	})
}

package gate_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/gate"
	"agents.example/controlplane/shared/egress"
)

// opened are connections of an agent on which something streams.
type opened struct {
	name string
	body io.Reader
}

// streams opens a connection of each kind to hosts that send a line and go on.
func streams(t *testing.T, w *world) []opened {
	t.Helper()
	stream := func(rw http.ResponseWriter, req *http.Request) {
		_, _ = io.WriteString(rw, "line\n")
		_ = http.NewResponseController(rw).Flush()
		<-req.Context().Done()
	}
	w.values["agent-1/API_KEY/1"] = "one"
	through := w.serveTLS(t, "through.example", stream)
	w.serveTLS(t, "api.example", stream)
	w.serveHTTP(t, "plain.example", stream)
	p := injecting("api.example")
	p.Allow = []string{"through.example", "api.example", "plain.example", "unused.example"}
	w.set(agentAddress, agentID, p)
	ca := w.ca(t, agentAddress, p)
	var all []opened
	for _, row := range []struct {
		name, url string
		client    *http.Client
	}{
		{name: "passed through", url: "https://through.example/", client: w.client(t, agentAddress, through)},
		{name: "brokered", url: "https://api.example/", client: w.client(t, agentAddress, ca)},
		{name: "port 80", url: "http://plain.example/", client: w.client(t, agentAddress, nil)},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, row.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := row.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		body := bufio.NewReader(res.Body)
		if line, err := body.ReadString('\n'); err != nil || line != "line\n" {
			t.Fatalf("%s: %q, %v", row.name, line, err)
		}
		all = append(all, opened{name: row.name, body: body})
	}
	return all
}

// TestPolicy_ChangesEndConnections: what is no longer allowed ends, also within streams.
func TestPolicy_ChangesEndConnections(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*world){
		"the names are not listed": func(w *world) { w.set(agentAddress, agentID, allow("unused.example")) },
		"the names are denied": func(w *world) {
			w.set(agentAddress, agentID, &egress.Policy{Allow: []string{"*"}, Deny: []string{"*"}})
		},
		"the agent is gone":        func(w *world) { w.set(agentAddress, "", nil) },
		"the address is another's": func(w *world) { w.set(agentAddress, otherID, allow("*")) },
		"with other changes after it": func(w *world) {
			w.set(agentAddress, agentID, allow("unused.example"))
			for range 100 {
				w.set(otherAddress, otherID, allow("*"))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			open := streams(t, w)
			began := time.Now()
			change(w)
			for _, o := range open {
				_, err := io.ReadAll(o.body)
				if timeout := net.Error(nil); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
					t.Errorf("%s: the stream ended with %v, want it broken off by the gate", o.name, err)
				}
			}
			t.Logf("closed after %s", time.Since(began))
		})
	}
}

// TestPolicy_ASecretEndsWhatIsPassedThrough: requests on the connection would go without it.
func TestPolicy_ASecretEndsWhatIsPassedThrough(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host("api.example:443", echo(t))
	w.host("slow.example:443", echo(t))
	dialed := make(chan struct{})
	w.stalled("slow.example:443", dialed)
	w.set(agentAddress, agentID, allow("api.example", "slow.example"))
	c, slow := w.open(t, agentAddress, w.tls), w.open(t, agentAddress, w.tls)
	sent := hello(t, "api.example")
	_, _ = c.Write(sent)
	if _, err := io.ReadFull(c, make([]byte, len(sent))); err != nil {
		t.Fatal(err)
	}
	_, _ = slow.Write(hello(t, "slow.example"))
	for w.dials("slow.example:443") == 0 {
		runtime.Gosched()
	}
	p := injecting("api.example")
	p.Inject[0].Hosts = append(p.Inject[0].Hosts, "slow.example")
	p.Allow = []string{"api.example", "slow.example"}
	w.set(agentAddress, agentID, p)
	if n, err := io.Copy(io.Discard, c); err != nil || n != 0 {
		t.Errorf("%d bytes and %v after the change, want the end", n, err)
	}
	close(dialed)
	if n, err := io.Copy(io.Discard, slow); err != nil || n != 0 {
		t.Errorf("%d bytes and %v on a connection that was being opened, want the end", n, err)
	}
}

// TestPolicy_ChangesKeepWhatIsAllowed goes on after changes that concern other names and agents.
func TestPolicy_ChangesKeepWhatIsAllowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host("api.example:443", echo(t))
	w.set(agentAddress, agentID, allow("api.example", "other.example"))
	c, sent := w.open(t, agentAddress, w.tls), hello(t, "api.example")
	_, _ = c.Write(sent)
	web := w.open(t, agentAddress, w.web)
	request := func() {
		t.Helper()
		_, _ = io.WriteString(web, "GET / HTTP/1.1\r\nHost: refused.example\r\n\r\n")
		if a, err := readAnswer(bufio.NewReader(web)); err != nil || a.status != http.StatusForbidden {
			t.Errorf("answer %+v, %v; want 403", a, err)
		}
	}
	request()
	for _, p := range []*egress.Policy{allow("*.example"), allow("api.example"), allow("*")} {
		w.set(agentAddress, agentID, p)
		w.set(otherAddress, otherID, p)
		w.set(otherAddress, "", nil)
		// The gate looks at connections soon after a change. One that it closed would have ended by then.
		lost := w.open(t, otherAddress, w.web)
		w.set(otherAddress, otherID, allow("*"))
		_, _ = io.WriteString(lost, "GET / HTTP/1.1\r\nHost: a.b\r\n\r\n")
		_, _ = lost.Read(make([]byte, 1))
		w.set(otherAddress, "", nil)
		_, _ = io.Copy(io.Discard, lost)
	}
	w.set(agentAddress, agentID, allow("api.example"))
	request()
	if got, err := io.ReadAll(io.LimitReader(c, int64(len(sent)))); err != nil || len(got) != len(sent) {
		t.Errorf("%d bytes came back, %v; want %d", len(got), err, len(sent))
	}
	if _, err := io.WriteString(c, "more"); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(c, make([]byte, len("more"))); err != nil {
		t.Errorf("the connection ended: %v", err)
	}
}

// TestPolicy_CAWaitsForThePolicy: a pod must not start with the CA of a former policy.
func TestPolicy_CAWaitsForThePolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before, after := injecting("before.example"), injecting("after.example")
	w.set(agentAddress, agentID, before)
	url := "http://" + gateAddress + dataplane.PathGateCA + "?policy=" + after.InjectHash()
	c := w.client(t, agentAddress, nil)
	if got := get(t, c, url); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("answer %+v, want 503 with Retry-After", got)
	}
	w.set(agentAddress, agentID, after)
	first, second := get(t, c, url), get(t, c, url)
	if first.status != http.StatusOK || first.body != second.body {
		t.Errorf("answers %+v and %+v, want the same certificate", first, second)
	}
	same := newWorld(t)
	same.set(otherAddress, agentID, after)
	if got := get(t, same.client(t, otherAddress, nil), url); got.body != first.body {
		t.Errorf("another gate has the certificate %s, want %s", got.body, first.body)
	}
}

// TestPolicy_HoldsUnknownAddresses on every port.
func TestPolicy_HoldsUnknownAddresses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, holding(patience))
	w.host("api.example:443", echo(t))
	w.serveHTTP(t, "api.example", func(http.ResponseWriter, *http.Request) {})
	web, sent := w.open(t, agentAddress, w.web), hello(t, "api.example")
	_, _ = io.WriteString(web, "GET / HTTP/1.1\r\nHost: api.example\r\n\r\n")
	c := w.open(t, agentAddress, w.tls)
	_, _ = c.Write(sent)
	w.set(agentAddress, agentID, allow("api.example"))
	if _, err := io.ReadFull(c, make([]byte, len(sent))); err != nil {
		t.Error(err)
	}
	if a, err := readAnswer(bufio.NewReader(web)); err != nil || a.status != http.StatusOK {
		t.Errorf("answer %+v, %v; want 200", a, err)
	}
}

// TestPolicy_RefusesUnknownAddresses after a time, and those above the bound immediately.
func TestPolicy_RefusesUnknownAddresses(t *testing.T) {
	t.Parallel()
	for name, configure := range map[string]func(*gate.Options){
		"held": holding(10 * time.Millisecond), "above the bound": func(o *gate.Options) {
			o.Timeouts.Hold, o.Limits.AddressWaiting = patience, -1
		},
	} {
		w := newWorld(t, configure)
		w.host("api.example:443", echo(t))
		c := w.open(t, strangerAddress, w.tls)
		_, _ = c.Write(hello(t, "api.example"))
		if got, err := io.ReadAll(c); err != nil || string(got) != string(alertUnrecognizedName) {
			t.Errorf("%s: got %x, %v; want an alert", name, got, err)
		}
		got := get(t, w.client(t, strangerAddress, nil), "http://api.example/")
		if got.status != http.StatusServiceUnavailable {
			t.Errorf("%s: answer %+v, want 503", name, got)
		}
	}
}

package gate_test

import (
	"crypto/x509"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/gate"
	"agents.example/controlplane/shared/egress"
)

func allow(patterns ...string) *egress.Policy { return &egress.Policy{Allow: patterns} }

// injecting is a policy with a secret for a host.
func injecting(host string) *egress.Policy {
	return &egress.Policy{
		Allow: []string{host},
		Inject: []egress.Injection{{
			Key: "API_KEY", Version: 1, Target: egress.Target{Hosts: []string{host}}.Canonical(),
		}},
	}
}

func TestGate_PassesTLSThrough(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	roots := w.serveTLS(t, "api.example.com", func(rw http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(rw, req.Body)
		_, _ = io.WriteString(rw, req.Host+" "+req.Proto)
	})
	w.set(agentAddress, agentID, allow("*.example.com"))
	got := get(t, w.client(t, agentAddress, roots), "https://api.example.com/")
	if got.status != http.StatusOK || got.body != "api.example.com HTTP/2.0" {
		t.Errorf("answer %+v, want the host's by HTTP/2", got)
	}
	large := strings.Repeat("x", 10<<20)
	got = get(t, w.client(t, agentAddress, roots), "https://api.example.com/", func(req *http.Request) {
		req.Method, req.Body = http.MethodPost, io.NopCloser(strings.NewReader(large))
	})
	if len(got.body) != len(large)+len("api.example.com HTTP/2.0") {
		t.Errorf("%d bytes came back, want those that were sent", len(got.body))
	}
}

func TestGate_ProxiesHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serveHTTP(t, "api.example.com", func(rw http.ResponseWriter, req *http.Request) {
		for name, values := range req.Header {
			rw.Header()["Got-"+name] = values
		}
		_, _ = io.WriteString(rw, req.Host+" "+req.RequestURI)
	})
	w.set(agentAddress, agentID, allow("api.example.com"))
	c := w.client(t, agentAddress, nil)
	got := get(t, c, "http://api.example.com//a%2fb;c?x;y=1&z", func(req *http.Request) {
		req.Header.Set("X-Forwarded-For", "192.0.2.1")
		req.Header.Set("Authorization", "mine")
		req.Header.Set("Proxy-Authorization", "other")
	})
	if got.status != http.StatusOK || got.body != "api.example.com //a%2fb;c?x;y=1&z" {
		t.Errorf("answer %+v, want the request unchanged", got)
	}
	if got.header.Get("Got-X-Forwarded-For") != "192.0.2.1" || got.header.Get("Got-Authorization") != "mine" ||
		got.header.Get("Got-Proxy-Authorization") != "" || got.header.Get("Got-Via") != "" {
		t.Errorf("the host got %v, want the agent's header without those of the connection", got.header)
	}
	raw := w.exchange(t, "GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n", 1)
	for name := range raw[0].header {
		if strings.HasPrefix(name, "Got-") {
			t.Errorf("the host got the header %q, want none that the agent did not send", name)
		}
	}
	got = get(t, c, "http://other.example.com/")
	want := "other.example.com is not on this agent's egress list. An admin can allow it: " +
		"agentctl egress allow agent-1 other.example.com"
	if got.status != http.StatusForbidden || !strings.Contains(got.body, want) ||
		got.header.Get(gate.HeaderReason) != string(egress.NotListed) {
		t.Errorf("answer %+v, want 403 with %q", got, want)
	}
	if got := get(t, c, "http://down.example.com/"); got.status != http.StatusForbidden {
		t.Errorf("status %d, want 403", got.status)
	}
}

func TestGate_SetsSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serveTLS(t, "api.example.com", func(rw http.ResponseWriter, req *http.Request) {
		rw.Header()["Got"] = req.Header["Authorization"]
		rw.Header()["Got-Other"] = req.Header["X-Forwarded-For"]
		_, _ = io.WriteString(rw, req.Host+" "+req.Proto)
	})
	w.serveHTTP(t, "api.example.com", func(rw http.ResponseWriter, req *http.Request) {
		rw.Header()["Got"] = req.Header["Authorization"]
	})
	w.values["agent-1/API_KEY/1"] = "the-value"
	p := injecting("api.example.com")
	w.set(agentAddress, agentID, p)
	roots := w.ca(t, agentAddress, p)
	for _, h2 := range []bool{true, false} {
		c := w.client(t, agentAddress, roots)
		if !h2 {
			c.Transport.(*http.Transport).Protocols.SetHTTP2(false)
		}
		got := get(t, c, "https://api.example.com/", func(req *http.Request) {
			req.Header.Set("Authorization", "Bearer injected")
			req.Header.Add("Authorization", "Bearer second")
		})
		if got.status != http.StatusOK || got.body != "api.example.com HTTP/2.0" || (got.proto == "HTTP/2.0") != h2 {
			t.Errorf("answer %+v, want the host's, with HTTP/2 to the host", got)
		}
		if !slices.Equal(got.header["Got"], []string{"Bearer the-value"}) || got.header["Got-Other"] != nil {
			t.Errorf("the host got %v, want the secret alone", got.header)
		}
	}
	got := get(t, w.client(t, agentAddress, nil), "http://api.example.com/")
	if got.status != http.StatusOK || got.header["Got"] != nil {
		t.Errorf("port 80 answered %+v, want no secret there", got)
	}
	if w.read["agent-1/API_KEY/1"] != 1 {
		t.Errorf("the value was read %d times, want once", w.read["agent-1/API_KEY/1"])
	}
}

// ca gets the certificate of an agent's CA from the gate.
func (w *world) ca(t testing.TB, address string, p *egress.Policy) *x509.CertPool {
	t.Helper()
	got := get(t, w.client(t, address, nil), "http://"+gateAddress+dataplane.PathGateCA+"?policy="+p.InjectHash())
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(got.body)) {
		t.Fatalf("the gate answered %+v, want a certificate", got)
	}
	return roots
}

package gate_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/gate"
	"agents.example/controlplane/shared/egress"
)

// brokered is a world with a host whose requests get a secret. The host answers with what it got.
func brokered(t *testing.T, configure ...func(*gate.Options)) (*world, *x509.CertPool) {
	t.Helper()
	w := newWorld(t, configure...)
	w.serveTLS(t, "api.example.com", func(rw http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		rw.Header()["Got"] = req.Header["Authorization"]
		rw.Header()["From"] = []string{req.RemoteAddr}
		rw.Header().Set("Trailer", "Sum")
		_, _ = fmt.Fprintf(rw, "%s %s %s", req.Method, req.RequestURI, body)
		rw.Header().Set("Sum", fmt.Sprint(len(body)))
	})
	w.values["agent-1/API_KEY/1"], w.values["agent-2/API_KEY/1"] = "one", "two"
	p := injecting("api.example.com")
	w.set(agentAddress, agentID, p)
	return w, w.ca(t, agentAddress, p)
}

// TestBroker_SetsSecretsOfTheConnectionsHostAlone sends requests within a connection to a host with a secret.
func TestBroker_SetsSecretsOfTheConnectionsHostAlone(t *testing.T) {
	t.Parallel()
	w, roots := brokered(t)
	const end = "\r\nConnection: close\r\n\r\n"
	for name, row := range map[string]struct {
		raw    string
		status int
		body   string
	}{
		"as it should be": {
			raw: "GET /a HTTP/1.1\r\nHost: api.example.com" + end, status: 200, body: "GET /a ",
		},
		"with the port": {raw: "GET / HTTP/1.1\r\nHost: api.example.com:443" + end, status: 200, body: "GET / "},
		"the header is of the connection": {
			raw: "GET / HTTP/1.1\r\nHost: api.example.com\r\nConnection: close, Authorization\r\n" +
				"Authorization: x\r\n\r\n",
			status: 200, body: "GET / ",
		},
		"in other letters": {
			raw:    "GET / HTTP/1.1\r\nHost: api.example.com\r\nauthorization: a\r\nAUTHORIZATION: b" + end,
			status: 200, body: "GET / ",
		},
		"absolute":        {raw: "GET https://api.example.com/ HTTP/1.1\r\nHost: x.example" + end, status: 200, body: "GET / "},
		"absolute, HTTP":  {raw: "GET http://api.example.com/ HTTP/1.1\r\nHost: api.example.com" + end, status: 400},
		"another Host":    {raw: "GET / HTTP/1.1\r\nHost: other.example.com" + end, status: 421},
		"absolute, other": {raw: "GET https://other.example.com/ HTTP/1.1\r\nHost: api.example.com" + end, status: 421},
		"address":         {raw: "GET / HTTP/1.1\r\nHost: " + gateAddress + end, status: 421},
		"no Host":         {raw: "GET / HTTP/1.0\r\n\r\n", status: 421},
		"another port":    {raw: "GET / HTTP/1.1\r\nHost: api.example.com:8443" + end, status: 403},
		"echo":            {raw: "TRACE / HTTP/1.1\r\nHost: api.example.com" + end, status: 405},
		"echo of others":  {raw: "TRACK / HTTP/1.1\r\nHost: api.example.com" + end, status: 405},
		"CONNECT":         {raw: "CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com" + end, status: 405},
		"two Hosts":       {raw: "GET / HTTP/1.1\r\nHost: api.example.com\r\nHost: other.example" + end, status: 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := tls.Client(w.open(t, agentAddress, w.tls), &tls.Config{ServerName: "api.example.com", RootCAs: roots})
			_, _ = io.WriteString(c, row.raw)
			a, err := readAnswer(bufio.NewReader(c))
			if err != nil {
				t.Fatal(err)
			}
			if a.status != row.status || row.body != "" && a.body != row.body {
				t.Errorf("answer %+v, want %d, %q", a, row.status, row.body)
			}
			got := a.header["Got"]
			if row.status == 200 && (len(got) != 1 || got[0] != "Bearer one") || row.status != 200 && got != nil {
				t.Errorf("the host got the header %q", got)
			}
		})
	}
}

func TestBroker_RefusesOtherAuthoritiesOfHTTP2(t *testing.T) {
	t.Parallel()
	w, roots := brokered(t)
	c := w.client(t, agentAddress, roots)
	got := get(t, c, "https://api.example.com/", func(req *http.Request) { req.Host = "other.example.com" })
	if got.status != http.StatusMisdirectedRequest || got.proto != "HTTP/2.0" {
		t.Errorf("answer %+v, want 421 by HTTP/2", got)
	}
	w.end()
	if n := w.counted(agentID, "other.example.com"); n.Refused != 1 || n.Reason != egress.OtherHost {
		t.Errorf("counted %+v, want a refusal", n)
	}
}

func TestBroker_PassesBodiesAndTrailers(t *testing.T) {
	t.Parallel()
	w, roots := brokered(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.example.com/p?q=%zz;",
		io.MultiReader(strings.NewReader("some"), strings.NewReader(" parts")))
	if err != nil {
		t.Fatal(err)
	}
	res, err := w.client(t, agentAddress, roots).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil || string(body) != "POST /p?q=%zz; some parts" || res.Trailer.Get("Sum") != "10" {
		t.Errorf("answer %q with trailer %v, %v", body, res.Trailer, err)
	}
}

// TestBroker_AgentsShareNoConnection: see tenant.transport.
func TestBroker_AgentsShareNoConnection(t *testing.T) {
	t.Parallel()
	w, roots := brokered(t)
	p := injecting("api.example.com")
	w.set(otherAddress, otherID, p)
	first := get(t, w.client(t, agentAddress, roots), "https://api.example.com/")
	again := get(t, w.client(t, agentAddress, roots), "https://api.example.com/")
	other := get(t, w.client(t, otherAddress, w.ca(t, otherAddress, p)), "https://api.example.com/")
	if first.header.Get("From") != again.header.Get("From") || first.header.Get("From") == other.header.Get("From") {
		t.Errorf("connections of one agent %v and %v, of another %v; want the first two equal",
			first.header["From"], again.header["From"], other.header["From"])
	}
	if first.header.Get("Got") != "Bearer one" || other.header.Get("Got") != "Bearer two" {
		t.Errorf("secrets %q and %q, want each agent's", first.header["Got"], other.header["Got"])
	}
}

// TestBroker_VerifiesHosts: without that, whoever controls the network would get the secret.
func TestBroker_VerifiesHosts(t *testing.T) {
	t.Parallel()
	w, roots := brokered(t)
	for name, certificate := range map[string]tls.Certificate{
		"unknown issuer": certify(t, "api.example.com"), "another name": w.known(certify(t, "other.example.com")),
	} {
		l := tls.NewListener(listen(t), &tls.Config{Certificates: []tls.Certificate{certificate}})
		s := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			t.Errorf("%s: a host with a wrong certificate got %v", name, req.Header)
		})}
		go func() { _ = s.Serve(l) }()
		t.Cleanup(func() { _ = s.Close() })
		w.host("api.example.com:443", l.Addr().String())
		if got := get(t, w.client(t, agentAddress, roots), "https://api.example.com/"); got.status != http.StatusBadGateway {
			t.Errorf("%s: answer %+v, want 502", name, got)
		}
	}
}

// known makes the gate accept a certificate.
func (w *world) known(c tls.Certificate) tls.Certificate {
	w.roots.AddCert(c.Leaf)
	return c
}

func TestBroker_RefusesWithoutTheSecret(t *testing.T) {
	t.Parallel()
	w, roots := brokered(t)
	delete(w.values, "agent-1/API_KEY/1")
	c := w.client(t, agentAddress, roots)
	got := get(t, c, "https://api.example.com/")
	if got.status != http.StatusBadGateway || got.header.Get(gate.HeaderReason) != string(egress.Unavailable) {
		t.Errorf("answer %+v, want 502", got)
	}
	w.net.Lock()
	w.values["agent-1/API_KEY/1"] = "line\nbreak"
	w.net.Unlock()
	eventually(t, "the value to be read again", func() bool {
		get(t, c, "https://api.example.com/")
		w.net.Lock()
		defer w.net.Unlock()
		return w.read["agent-1/API_KEY/1"] > 1
	})
	if got := get(t, c, "https://api.example.com/"); got.status != http.StatusBadGateway ||
		got.header.Get(gate.HeaderReason) != string(egress.Unavailable) || strings.Contains(fmt.Sprint(got), "break") {
		t.Errorf("answer %+v, want 502 without the value", got)
	}
}

// TestBroker_AddsNoSecretByRulesOfALaterRelease: a worker of a later release may have restricted the requests that get
// a secret, and this gate does not know to which.
func TestBroker_AddsNoSecretByRulesOfALaterRelease(t *testing.T) {
	t.Parallel()
	w, roots := brokered(t)
	text := strings.Replace(injecting("api.example.com").Encode(), `"hosts"`, `"paths":["/v1/"],"hosts"`, 1)
	p, err := egress.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	w.set(agentAddress, agentID, &p)
	got := get(t, w.client(t, agentAddress, roots), "https://api.example.com/")
	if got.status != http.StatusBadGateway || got.header.Get(gate.HeaderReason) != string(egress.Unavailable) {
		t.Errorf("answer %+v, want 502", got)
	}
}

// TestBroker_NeedsTheCellsSecret: such a host gets no connection without its secret either.
func TestBroker_NeedsTheCellsSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *gate.Options) { o.Secret = nil })
	w.serveTLS(t, "api.example.com", func(_ http.ResponseWriter, req *http.Request) { t.Errorf("got %v", req.Header) })
	w.set(agentAddress, agentID, injecting("api.example.com"))
	c := w.open(t, agentAddress, w.tls)
	_, _ = c.Write(hello(t, "api.example.com"))
	if got, err := io.ReadAll(c); err != nil || string(got) != "\x15\x03\x03\x00\x02\x02\x50" {
		t.Errorf("got %x, %v; want the alert internal_error", got, err)
	}
	got := get(t, w.client(t, agentAddress, nil), "http://"+gateAddress+dataplane.PathGateCA+"?policy="+
		injecting("api.example.com").InjectHash())
	if got.status != http.StatusServiceUnavailable {
		t.Errorf("answer %+v, want 503", got)
	}
}

func TestBroker_ServesWebSockets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	open := sockets(t, w)
	w.set(agentAddress, agentID, allow("another.example.com"))
	for _, c := range open {
		if _, _, err := c.Read(t.Context()); err == nil {
			t.Error("a WebSocket is open after the policy changed")
		}
		_ = c.CloseNow()
	}
}

// sockets opens a WebSocket to a host with a secret, and one to port 80. Both are silent after a message.
func sockets(t *testing.T, w *world) []*websocket.Conn {
	t.Helper()
	socket := func(rw http.ResponseWriter, req *http.Request) {
		c, err := websocket.Accept(rw, req, nil)
		if err != nil {
			return
		}
		_ = c.Write(req.Context(), websocket.MessageText, []byte(req.Header.Get("Authorization")))
		_, _, _ = c.Read(req.Context()) // until it is closed
	}
	w.serveTLS(t, "api.example.com", socket)
	w.serveHTTP(t, "plain.example.com", socket)
	w.values["agent-1/API_KEY/1"] = "one"
	p := injecting("api.example.com")
	p.Allow = append(p.Allow, "plain.example.com")
	w.set(agentAddress, agentID, p)
	client := w.client(t, agentAddress, w.ca(t, agentAddress, p))
	var open []*websocket.Conn
	for url, want := range map[string]string{"wss://api.example.com/": "Bearer one", "ws://plain.example.com/": ""} {
		//nolint:bodyclose // the connection has the body
		c, _, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{HTTPClient: client})
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
		if _, got, err := c.Read(t.Context()); err != nil || string(got) != want {
			t.Errorf("%s: message %q, %v; want %q", url, got, err, want)
		}
	}
	return open
}

func TestBroker_BoundsRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *gate.Options) { o.Limits.AgentRequests = 1 })
	release := make(chan struct{})
	w.serveHTTP(t, "slow.example.com", func(http.ResponseWriter, *http.Request) { <-release })
	w.serveHTTP(t, "api.example.com", func(http.ResponseWriter, *http.Request) {})
	w.set(agentAddress, agentID, allow("*.example.com"))
	w.set(otherAddress, otherID, allow("*.example.com"))
	c := w.open(t, agentAddress, w.web)
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: slow.example.com\r\nConnection: close\r\n\r\n")
	eventually(t, "the first request to arrive", func() bool { return w.dials("slow.example.com:80") == 1 })
	got := get(t, w.client(t, agentAddress, nil), "http://api.example.com/")
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("answer %+v, want 503 with Retry-After", got)
	}
	if got := get(t, w.client(t, otherAddress, nil), "http://api.example.com/"); got.status != http.StatusOK {
		t.Errorf("another agent got %+v", got)
	}
	close(release)
	_, _ = io.Copy(io.Discard, c)
	if got := get(t, w.client(t, agentAddress, nil), "http://api.example.com/"); got.status != http.StatusOK {
		t.Errorf("answer %+v after the first one, want 200", got)
	}
}

// raw opens a connection by HTTP/2 to a brokered host, and returns what sends a request.
func (w *world) raw(
	t *testing.T, roots *x509.CertPool, settings ...http2.Setting,
) (framer *http2.Framer, send func() error) {
	t.Helper()
	c := tls.Client(w.open(t, agentAddress, w.tls), &tls.Config{
		RootCAs: roots, ServerName: "api.example.com", NextProtos: []string{"h2"},
	})
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer = http2.NewFramer(c, c)
	id := uint32(1)
	if err := framer.WriteSettings(settings...); err != nil {
		t.Fatal(err)
	}
	return framer, func() error {
		var block bytes.Buffer
		fields := hpack.NewEncoder(&block)
		for _, f := range [][2]string{
			{":method", "GET"}, {":scheme", "https"}, {":authority", "api.example.com"}, {":path", "/"},
		} {
			_ = fields.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
		defer func() { id += 2 }()
		return framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID: id, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true,
		})
	}
}

// TestBroker_BoundsAnswersThatAreNotTaken: an agent that lets the gate send no answer by HTTP/2 does not fill its
// memory with requests, also with those that are refused.
func TestBroker_BoundsAnswersThatAreNotTaken(t *testing.T) {
	t.Parallel()
	const connections, requests = 3, 100
	w, roots := brokered(t, func(o *gate.Options) { o.Limits.AgentRequests = 8 })
	var ended sync.WaitGroup
	for range connections {
		framer, send := w.raw(t, roots, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		for range requests {
			_ = send() // the gate may have closed the connection
		}
		ended.Go(func() {
			for f, err := framer.ReadFrame(); err == nil; f, err = framer.ReadFrame() {
				if ping, ok := f.(*http2.PingFrame); ok {
					t.Errorf("the gate keeps a connection, and sends %v", ping)
				}
			}
		})
	}
	ended.Wait()
	client := w.client(t, agentAddress, roots)
	eventually(t, "an answer on another connection", func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example.com/", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		return err == nil && res.StatusCode == http.StatusOK && res.Body.Close() == nil
	})
	w.end()
	if got := w.counted(agentID, "api.example.com"); got.Reason != egress.TooMany {
		t.Errorf("counted %+v, want that there were too many", got)
	}
}

// TestBroker_BoundsHeadersThatArrive: an agent that leaves headers unfinished on all its connections to hosts with
// brokered secrets does not fill the memory of the gate, and keeps no ordinary request from its host.
func TestBroker_BoundsHeadersThatArrive(t *testing.T) {
	t.Parallel()
	// Six copies of 15 KiB, without 4 KiB each: 195 of them take 16 MiB.
	const all, room = 300, 250
	w, roots := brokered(t, func(o *gate.Options) {
		o.Timeouts.Hello, o.Timeouts.Drain = patience/4, time.Millisecond
	})
	header := "GET / HTTP/1.1\r\nHost: api.example.com\r\n" + strings.Repeat("a:b\r\n", 15<<10/5)
	ended := make(chan struct{}, all)
	for range all {
		c := tls.Client(w.open(t, agentAddress, w.tls), &tls.Config{RootCAs: roots, ServerName: "api.example.com"})
		if err := c.HandshakeContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, header) // some are refused before that
		go func() {
			got, _ := io.ReadAll(c)
			if len(got) > 0 {
				t.Errorf("an unfinished header got %q", got)
			}
			ended <- struct{}{}
		}()
	}
	for range all - room {
		<-ended
	}
	client := w.client(t, agentAddress, roots)
	for range 3 {
		if got := get(t, client, "https://api.example.com/"); got.status != http.StatusOK {
			t.Errorf("an ordinary request got %+v", got)
		}
	}
	w.end()
	if got := w.counted(agentID, "api.example.com"); got.Reason != egress.TooMany {
		t.Errorf("counted %+v, want that there were too many", got)
	}
}

// TestBroker_BoundsConnectionsThatAreNotRead: an agent that reads nothing of many connections by HTTP/2 loses some.
func TestBroker_BoundsConnectionsThatAreNotRead(t *testing.T) {
	t.Parallel()
	const connections, most = 12, 8
	ended := make(chan error, connections)
	w := newWorld(t, func(o *gate.Options) {
		o.Timeouts.Slow, o.Timeouts.Drain = 50*time.Millisecond, time.Millisecond
	})
	// Requests to a host by HTTP/2 would wait for each other.
	w.serveTLSBy(t, "api.example.com", false, func(rw http.ResponseWriter, _ *http.Request) {
		_, err := io.CopyN(rw, zeros{}, 64<<20)
		ended <- err
	})
	w.values["agent-1/API_KEY/1"] = "one"
	p := injecting("api.example.com")
	w.set(agentAddress, agentID, p)
	roots := w.ca(t, agentAddress, p)
	const all = 1<<31 - 1
	for range connections {
		framer, send := w.raw(t, roots, http2.Setting{ID: http2.SettingInitialWindowSize, Val: all})
		if err := errors.Join(framer.WriteWindowUpdate(0, all-1<<16), send()); err != nil {
			t.Fatal(err)
		}
	}
	for range connections - most {
		if err := <-ended; err == nil {
			t.Fatal("an answer was read to its end")
		}
	}
	w.end()
	if got := w.counted(agentID, "api.example.com"); got.Reason != egress.TooMany {
		t.Errorf("counted %+v, want that there were too many", got)
	}
}

// zeros has no end.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

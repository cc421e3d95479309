package gate_test

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/dataplane/gate"
	"agents.example/controlplane/shared/egress"
)

// hello returns a ClientHello with a name, which may be one that Go does not send. An empty name gives a hello without
// one.
func hello(t testing.TB, name string, change ...func(*tls.Config)) []byte {
	t.Helper()
	mark := ""
	if name != "" {
		mark = strings.Repeat("m.", len(name)/2) + strings.Repeat("m", len(name)%2+2)
		mark = mark[len(mark)-len(name):]
		mark = strings.TrimPrefix(mark, ".")
		mark = strings.Repeat("m", len(name)-len(mark)) + mark
	}
	config := &tls.Config{ServerName: mark, InsecureSkipVerify: true}
	for _, f := range change {
		f(config)
	}
	ours, theirs := net.Pipe()
	go func() {
		_ = tls.Client(theirs, config).HandshakeContext(t.Context())
		_ = theirs.Close()
	}()
	defer func() { _ = ours.Close() }()
	header := make([]byte, 5)
	if _, err := io.ReadFull(ours, header); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint16(header[3:]))
	if _, err := io.ReadFull(ours, body); err != nil {
		t.Fatal(err)
	}
	record := slices.Concat(header, body)
	if name != "" && bytes.Count(record, []byte(mark)) != 1 {
		t.Fatalf("the hello has the name %q not once", mark)
	}
	return bytes.Replace(record, []byte(mark), []byte(name), 1)
}

// records splits the record of a hello into several.
func records(hello []byte, size int) []byte {
	var out []byte
	for part := range slices.Chunk(hello[5:], size) {
		out = append(out, hello[0], hello[1], hello[2])
		out = binary.BigEndian.AppendUint16(out, uint16(len(part)))
		out = append(out, part...)
	}
	return out
}

// padded returns a hello of some size, with an extension that no server knows.
func padded(hello []byte, size int) []byte {
	message := slices.Clone(hello[5:])
	// After the type and length of the message: version, random, session, suites, compression, extensions.
	at := 4 + 2 + 32
	at += 1 + int(message[at])
	at += 2 + int(binary.BigEndian.Uint16(message[at:]))
	at += 1 + int(message[at])
	extensions := int(binary.BigEndian.Uint16(message[at:]))
	padding := size - len(message)
	n := padding - 4
	message = append(message, 0xfe, 0xfe, byte(n>>8), byte(n))
	message = append(message, make([]byte, n)...)
	binary.BigEndian.PutUint16(message[at:], uint16(extensions+padding))
	length := len(message) - 4
	message[1], message[2], message[3] = byte(length>>16), byte(length>>8), byte(length)
	return records(slices.Concat(hello[:5], message), 16000)
}

var (
	alertInternalError    = []byte{21, 3, 3, 0, 2, 2, 80}
	alertUnrecognizedName = []byte{21, 3, 3, 0, 2, 2, 112}
)

// TestTLS_LeadsOnlyToWhatTheListHas sends what a connection to port 443 may begin with.
func TestTLS_LeadsOnlyToWhatTheListHas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set(agentAddress, agentID, &egress.Policy{
		Allow: []string{"api.example.com", "*.wild.example", "rebound.example", strings.Repeat("a.", 126) + "a"},
		Deny:  []string{"bad.wild.example"},
	})
	longest := strings.Repeat("a.", 126) + "a"
	for _, host := range []string{"api.example.com", "a.wild.example", "a.b.wild.example", longest} {
		w.host(host+":443", echo(t))
	}
	w.host("rebound.example:443", "private")
	plain := hello(t, "api.example.com")
	for name, row := range map[string]struct {
		sent []byte
		// leads is the host that gets what was sent; "" for none.
		leads  string
		dialed bool // the host that is refused while it is dialed
		delay  bool // sends byte by byte
	}{
		"listed":               {sent: plain, leads: "api.example.com"},
		"upper case":           {sent: hello(t, "API.Example.COM"), leads: "api.example.com"},
		"wildcard":             {sent: hello(t, "a.wild.example"), leads: "a.wild.example"},
		"wildcard, two labels": {sent: hello(t, "a.b.wild.example"), leads: "a.b.wild.example"},
		"longest name":         {sent: hello(t, longest), leads: longest},
		"several records":      {sent: records(plain, 50), leads: "api.example.com"},
		"records of a byte":    {sent: records(plain, 1), leads: "api.example.com"},
		"byte by byte":         {sent: plain, leads: "api.example.com", delay: true},
		"60 KiB":               {sent: padded(plain, 60<<10), leads: "api.example.com"},
		"early data": {
			sent: append(slices.Clone(plain), "\x17\x03\x03\x00\x03abc"...), leads: "api.example.com",
		},
		"TLS 1.2": {
			sent:  hello(t, "api.example.com", func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }),
			leads: "api.example.com",
		},
		"post-quantum off": {
			sent:  hello(t, "api.example.com", func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.X25519} }),
			leads: "api.example.com",
		},
		"not listed":            {sent: hello(t, "other.example.com")},
		"below a listed one":    {sent: hello(t, "a.api.example.com")},
		"parent of a listed":    {sent: hello(t, "example.com")},
		"parent of wildcard":    {sent: hello(t, "wild.example")},
		"denied":                {sent: hello(t, "bad.wild.example")},
		"longer suffix":         {sent: hello(t, "api.example.com.evil.example")},
		"longer prefix":         {sent: hello(t, "xapi.example.com")},
		"dot at the end":        {sent: hello(t, "api.example.com.")},
		"two dots":              {sent: hello(t, "api..example.com")},
		"dot at the start":      {sent: hello(t, ".wild.example")},
		"NUL":                   {sent: hello(t, "api.example.com\x00.wild.example")},
		"space":                 {sent: hello(t, "api.example.com .wild.example")},
		"port":                  {sent: hello(t, "api.example.com:443")},
		"slash":                 {sent: hello(t, "evil.example/.wild.example")},
		"at sign":               {sent: hello(t, "a@evil.example")},
		"254 bytes":             {sent: hello(t, "a"+longest)},
		"IPv4":                  {sent: hello(t, "93.184.215.14")},
		"IPv4, short":           {sent: hello(t, "127.1")},
		"IPv4, hexadecimal":     {sent: hello(t, "0x7f.0.0.1")},
		"IPv6":                  {sent: hello(t, "2001:db8::1")},
		"IPv6 in brackets":      {sent: hello(t, "[2001:db8::1]")},
		"single label":          {sent: hello(t, "metadata")},
		"metadata server":       {sent: hello(t, "metadata.google.internal")},
		"name servers by HTTPS": {sent: hello(t, "dns.google")},
		"no name":               {sent: hello(t, "")},
		"70 KiB":                {sent: padded(plain, 70<<10)},
		"private address":       {sent: hello(t, "rebound.example"), dialed: true},
		"plain HTTP":            {sent: []byte("GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n")},
		"SSH":                   {sent: []byte("SSH-2.0-OpenSSH_9.6\r\n")},
		"STARTTLS":              {sent: []byte("EHLO agent\r\nSTARTTLS\r\n")},
		"no handshake first":    {sent: append([]byte("\x17\x03\x03\x00\x03abc"), plain...)},
		"server's hello":        {sent: append([]byte{22, 3, 3, 0, 4, 2, 0, 0, 0}, plain...)},
		"zeros":                 {sent: make([]byte, 4096)},
		"SSL 2":                 {sent: []byte{0x80, 0x2e, 1, 0, 2, 0, 0x15, 0, 0, 0, 0x10, 1, 0, 0x80, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := w.open(t, agentAddress, w.tls)
			go func() {
				if !row.delay {
					_, _ = c.Write(row.sent)
					return
				}
				for _, b := range row.sent {
					_, _ = c.Write([]byte{b})
				}
			}()
			if row.leads == "" {
				got := make([]byte, len(alertUnrecognizedName))
				if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, alertUnrecognizedName) {
					t.Errorf("got %x, %v; want the alert %x", got, err, alertUnrecognizedName)
				}
				return
			}
			got := make([]byte, len(row.sent))
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, row.sent) {
				t.Errorf("%v; got %d bytes, which equal the %d that were sent: %t", err, len(got), len(row.sent),
					bytes.Equal(got, row.sent))
			}
		})
	}
	t.Cleanup(func() { // after all rows
		w.net.Lock()
		defer w.net.Unlock()
		for name := range w.dialed {
			if host := strings.TrimSuffix(name, ":443"); host != "rebound.example" && w.hosts[name] == "" {
				t.Errorf("the gate dialed %q", name)
			}
		}
	})
}

// echo starts a host that returns what it gets.
func echo(t testing.TB) string {
	t.Helper()
	l := listen(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	return l.Addr().String()
}

// TestTLS_GoesByTheOuterName sends a hello like those of browsers, with an inner one that only some servers can read.
func TestTLS_GoesByTheOuterName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set(agentAddress, agentID, allow("front.example"))
	w.host("front.example:443", echo(t))
	sent := hello(t, "front.example")
	// GREASE: encrypted_client_hello (RFC 9849), outer, with nonsense in it.
	sent = withExtension(sent, 0xfe0d, slices.Concat([]byte{0, 0, 1, 0, 1, 7, 0, 32}, make([]byte, 32), []byte{0, 16},
		make([]byte, 16)))
	c := w.open(t, agentAddress, w.tls)
	_, _ = c.Write(sent)
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%v; the host did not get the hello as it was sent", err)
	}
}

func withExtension(hello []byte, kind uint16, data []byte) []byte {
	out := padded(hello, len(hello)-5+4+len(data))
	at := len(out) - 4 - len(data)
	binary.BigEndian.PutUint16(out[at:], kind)
	copy(out[at+4:], data)
	return out
}

func TestTLS_PassesHalfClosesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set(agentAddress, agentID, allow("api.example.com"))
	l := listen(t)
	w.host("api.example.com:443", l.Addr().String())
	sent := append(hello(t, "api.example.com"), "and more"...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		got, _ := io.ReadAll(c) // until the agent's side ended
		_, _ = c.Write(got)
		_ = c.Close()
	}()
	c := w.open(t, agentAddress, w.tls)
	_, _ = c.Write(sent)
	_ = c.(*net.TCPConn).CloseWrite()
	if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("got %d bytes, %v; want the %d that were sent", len(got), err, len(sent))
	}
	<-done
	_ = l.Close()
}

func TestTLS_EndsWhatIsSilent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, idle(20*time.Millisecond))
	w.set(agentAddress, agentID, allow("api.example.com"))
	w.host("api.example.com:443", echo(t))
	c := w.open(t, agentAddress, w.tls)
	sent := hello(t, "api.example.com")
	_, _ = c.Write(sent)
	if got, err := io.ReadAll(c); len(got) != len(sent) || errors.Is(err, net.ErrClosed) {
		t.Errorf("got %d bytes, %v; want %d and the end", len(got), err, len(sent))
	}
}

// TestTLS_EndsWhatIsNotRead: the agent sends no more, and reads nothing of what the host sends without end.
func TestTLS_EndsWhatIsNotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, idle(100*time.Millisecond))
	w.set(agentAddress, agentID, allow("api.example.com"))
	l := listen(t)
	defer l.Close() //nolint:errcheck // nothing depends on it
	w.host("api.example.com:443", l.Addr().String())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close() //nolint:errcheck // as above
		for some := make([]byte, 64<<10); err == nil; {
			_, err = c.Write(some)
		}
	}()
	c := w.open(t, agentAddress, w.tls)
	_, _ = c.Write(hello(t, "api.example.com"))
	_ = c.(*net.TCPConn).CloseWrite()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the connection to the host is open a minute after the agent has stopped reading")
	}
}

// TestTLS_ADeadHostDelaysNoOther: one that never answers takes a connection of its agent, and nothing else.
func TestTLS_ADeadHostDelaysNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release := make(chan struct{})
	defer close(release)
	w.stalled("dead.example:443", release)
	w.host("api.example.com:443", echo(t))
	w.set(agentAddress, agentID, allow("*"))
	w.set(otherAddress, otherID, allow("*"))
	for range 100 {
		_, _ = w.open(t, agentAddress, w.tls).Write(hello(t, "dead.example"))
	}
	eventually(t, "all to be dialed", func() bool { return w.dials("dead.example:443") == 100 })
	for _, address := range []string{agentAddress, otherAddress} {
		c := w.open(t, address, w.tls)
		sent := hello(t, "api.example.com")
		_, _ = c.Write(sent)
		if _, err := io.ReadFull(c, make([]byte, len(sent))); err != nil {
			t.Errorf("%s got no answer: %v", address, err)
		}
	}
}

func TestTLS_BoundsConnectionsOfAnAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, few(3))
	w.set(agentAddress, agentID, allow("api.example.com"))
	w.set(otherAddress, otherID, allow("api.example.com"))
	w.host("api.example.com:443", echo(t))
	sent := hello(t, "api.example.com")
	for range 3 {
		if !w.echoes(t, agentAddress, sent) {
			t.Error("a connection within the limit was refused")
		}
	}
	if w.echoes(t, agentAddress, sent) {
		t.Error("a connection above the limit was served")
	}
	if !w.echoes(t, otherAddress, sent) {
		t.Error("another agent's connection was refused")
	}
	w.end()
	if got := w.counted(agentID, egress.NoHost); got.Refused != 1 || got.Reason != egress.TooMany {
		t.Errorf("counted %+v, want one refusal", got)
	}
}

// TestTLS_BoundsHellosThatArrive: an agent that leaves large hellos unfinished on all its connections does not fill the
// memory of the gate, and keeps no agent with an ordinary one from its host.
func TestTLS_BoundsHellosThatArrive(t *testing.T) {
	t.Parallel()
	// Three copies of 56 KiB beyond what each may have: 96 of them take more than 16 MiB.
	const size, all, room = 60 << 10, 200, 100
	w := newWorld(t, func(o *gate.Options) { o.Timeouts.Hello = patience / 4 })
	w.set(agentAddress, agentID, allow("api.example.com"))
	w.set(otherAddress, otherID, allow("api.example.com"))
	w.host("api.example.com:443", echo(t))
	large := padded(hello(t, "api.example.com"), size)
	var open []net.Conn
	alerts := make(chan []byte, all)
	for range all {
		c := w.open(t, agentAddress, w.tls)
		open = append(open, c)
		_, _ = c.Write(large[:len(large)-1]) // some are refused before that
		go func() {
			alert := make([]byte, len(alertInternalError))
			_, _ = io.ReadFull(c, alert) // the test closes those that are not refused
			alerts <- alert
		}()
	}
	for range all - room {
		if alert := <-alerts; !bytes.Equal(alert, alertInternalError) {
			t.Fatalf("a connection got %x, want %x", alert, alertInternalError)
		}
	}
	echoes := func(address string, sent []byte) error {
		c := w.open(t, address, w.tls)
		_, _ = c.Write(sent)
		_, err := io.ReadFull(c, make([]byte, len(sent)))
		if err != nil {
			_ = c.Close()
		}
		return err
	}
	if err := echoes(otherAddress, hello(t, "api.example.com")); err != nil {
		t.Errorf("another agent got no answer: %v", err)
	}
	if err := echoes(otherAddress, large); err != nil {
		t.Errorf("another agent with a large hello got no answer: %v", err)
	}
	for _, c := range open {
		_ = c.Close()
	}
	for echoes(agentAddress, large) != nil { // until the gate has noticed
		if t.Context().Err() != nil {
			t.Fatal("a large hello is refused after the others are gone")
		}
	}
	for range room { // what is passed on takes no room
		if err := echoes(agentAddress, large); err != nil {
			t.Fatalf("a large hello is refused while others are passed on: %v", err)
		}
	}
}

package gate_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"agents.example/controlplane/shared/egress"
)

// question returns a query.
func question(t testing.TB, name string, kind dnsmessage.Type, change ...func(*dnsmessage.Message)) []byte {
	t.Helper()
	m := dnsmessage.Message{
		Header: dnsmessage.Header{ID: 4711, RecursionDesired: true},
		Questions: []dnsmessage.Question{{
			Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET,
		}},
	}
	for _, f := range change {
		f(&m)
	}
	text, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// withEDNS adds an OPT record.
func withEDNS(version uint32) func(*dnsmessage.Message) {
	return func(m *dnsmessage.Message) {
		var h dnsmessage.ResourceHeader
		_ = h.SetEDNS0(4096, dnsmessage.RCodeSuccess, true)
		h.TTL |= version << 16
		m.Additionals = append(m.Additionals, dnsmessage.Resource{Header: h, Body: &dnsmessage.OPTResource{}})
	}
}

// asks opens a socket of an agent for queries.
func (w *world) asks(t testing.TB, address string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(address)}}
	c, err := d.DialContext(t.Context(), "udp", w.packets)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c
}

func ask(t testing.TB, c net.Conn, query []byte) dnsmessage.Message {
	t.Helper()
	if _, err := c.Write(query); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 4096)
	n, err := c.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	if n > len(query)+16 {
		t.Errorf("the answer has %d bytes, the query %d", n, len(query))
	}
	return unpack(t, buffer[:n])
}

func unpack(t testing.TB, text []byte) dnsmessage.Message {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack(text); err != nil {
		t.Fatal(err)
	}
	return m
}

// codes of the answers, in short.
const (
	ok      = dnsmessage.RCodeSuccess
	refused = dnsmessage.RCodeRefused
	noName  = dnsmessage.RCodeNameError
)

// TestDNS_AnswersWithTheGateAlone asks for names and types of all kinds.
func TestDNS_AnswersWithTheGateAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	longest := strings.Repeat("a.", 126) + "a."
	w.set(agentAddress, agentID, &egress.Policy{
		Allow: []string{"api.example.com", "*.wild.example", strings.TrimSuffix(longest, ".")},
		Deny:  []string{"bad.wild.example"},
	})
	chaos := func(m *dnsmessage.Message) { m.Questions[0].Class = dnsmessage.ClassCHAOS }
	other := func(m *dnsmessage.Message) { m.OpCode = 5 }
	c := w.asks(t, agentAddress)
	for name, row := range map[string]struct {
		name   string
		kind   dnsmessage.Type
		change []func(*dnsmessage.Message)
		code   dnsmessage.RCode
		found  bool
		edns   bool
	}{
		"A":                  {name: "api.example.com.", kind: dnsmessage.TypeA, found: true},
		"A, mixed case":      {name: "aPI.exaMple.com.", kind: dnsmessage.TypeA, found: true},
		"A below a wildcard": {name: "a.b.wild.example.", kind: dnsmessage.TypeA, found: true},
		"A, longest name":    {name: longest, kind: dnsmessage.TypeA, found: true},
		"A, EDNS": {
			name: "api.example.com.", kind: dnsmessage.TypeA, found: true, change: edns(0), edns: true,
		},
		"AAAA":         {name: "api.example.com.", kind: dnsmessage.TypeAAAA},
		"HTTPS":        {name: "api.example.com.", kind: 65},
		"SVCB":         {name: "api.example.com.", kind: 64},
		"TXT":          {name: "api.example.com.", kind: dnsmessage.TypeTXT, code: refused},
		"ANY":          {name: "api.example.com.", kind: dnsmessage.TypeALL, code: refused},
		"NULL":         {name: "api.example.com.", kind: 10, code: refused},
		"MX":           {name: "api.example.com.", kind: dnsmessage.TypeMX, code: refused},
		"NS":           {name: "api.example.com.", kind: dnsmessage.TypeNS, code: refused},
		"SOA":          {name: "api.example.com.", kind: dnsmessage.TypeSOA, code: refused},
		"CNAME":        {name: "api.example.com.", kind: dnsmessage.TypeCNAME, code: refused},
		"SRV":          {name: "api.example.com.", kind: dnsmessage.TypeSRV, code: refused},
		"AXFR":         {name: "api.example.com.", kind: dnsmessage.TypeAXFR, code: refused},
		"PTR":          {name: "53.224.118.34.in-addr.arpa.", kind: dnsmessage.TypePTR, code: noName},
		"unknown type": {name: "api.example.com.", kind: 65280, code: refused},
		"not listed":   {name: "other.example.com.", kind: dnsmessage.TypeA, code: noName},
		"not listed, EDNS": {
			name: "other.example.com.", kind: dnsmessage.TypeA, code: noName, change: edns(0), edns: true,
		},
		"not listed, AAAA":     {name: "other.example.com.", kind: dnsmessage.TypeAAAA, code: noName},
		"not listed, HTTPS":    {name: "other.example.com.", kind: 65, code: noName},
		"denied":               {name: "bad.wild.example.", kind: dnsmessage.TypeA, code: noName},
		"parent of a wildcard": {name: "wild.example.", kind: dnsmessage.TypeA, code: noName},
		"tunnel": {
			name: strings.Repeat(strings.Repeat("x", 63)+".", 3) + "t.example.", kind: dnsmessage.TypeA, code: noName,
		},
		"tunnel by TXT":    {name: "c2VjcmV0.t.example.", kind: dnsmessage.TypeTXT, code: noName},
		"root":             {name: ".", kind: dnsmessage.TypeNS, code: noName},
		"single label":     {name: "metadata.", kind: dnsmessage.TypeA, code: noName},
		"cluster":          {name: "kubernetes.default.svc.cluster.local.", kind: dnsmessage.TypeA, code: noName},
		"address":          {name: "127.0.0.1.", kind: dnsmessage.TypeA, code: noName},
		"bytes":            {name: "a\x00\xff.wild.example.", kind: dnsmessage.TypeA, code: noName},
		"another class":    {name: "version.bind.", kind: dnsmessage.TypeTXT, code: noName, change: list(chaos)},
		"class of an A":    {name: "api.example.com.", kind: dnsmessage.TypeA, code: refused, change: list(chaos)},
		"an update":        {name: "api.example.com.", kind: dnsmessage.TypeA, code: 4, change: list(other)},
		"EDNS of a future": {name: "api.example.com.", kind: dnsmessage.TypeA, change: edns(1), edns: true},
	} {
		query := question(t, row.name, row.kind, row.change...)
		got := ask(t, c, query)
		if got.RCode != row.code || !got.Response || got.ID != 4711 || len(got.Questions) != 1 ||
			got.Questions[0].Name.String() != row.name || len(got.Answers) > 0 != row.found ||
			len(got.Additionals) > 0 != row.edns {
			t.Errorf("%s: answer %+v, want code %d", name, got, row.code)
			continue
		}
		if row.found {
			a, isA := got.Answers[0].Body.(*dnsmessage.AResource)
			if !isA || netip.AddrFrom4(a.A).String() != gateAddress || got.Answers[0].Header.TTL != 30 {
				t.Errorf("%s: answer %+v, want the gate's address for 30 s", name, got.Answers)
			}
		}
		if row.edns && row.code != ok {
			opt := got.Additionals[0].Body.(*dnsmessage.OPTResource)
			if len(opt.Options) != 1 || opt.Options[0].Code != 15 || !slices.Equal(opt.Options[0].Data, []byte{0, 17}) {
				t.Errorf("%s: options %+v, want the error 17", name, opt.Options)
			}
		}
		if name == "EDNS of a future" && got.Additionals[0].Header.ExtendedRCode(got.RCode) != 16 {
			t.Errorf("%s: %+v, want BADVERS", name, got.Additionals[0].Header)
		}
	}
	if n := len(w.dialed); n != 0 {
		t.Errorf("queries made the gate dial %d names", n)
	}
	w.end()
	if got := w.counted(agentID, "api.example.com"); got.Used != 0 || got.Reason != egress.Unsupported {
		t.Errorf("counted %+v, want refusals of types and no use", got)
	}
	if got := w.counted(agentID, "bad.wild.example"); got.Refused != 1 || got.Reason != egress.Denied {
		t.Errorf("counted %+v, want a refusal", got)
	}
}

func list(f ...func(*dnsmessage.Message)) []func(*dnsmessage.Message) { return f }

func edns(version uint32) []func(*dnsmessage.Message) { return list(withEDNS(version)) }

// TestDNS_IgnoresWhatIsNoQuery: an answer to an answer could go on forever.
func TestDNS_IgnoresWhatIsNoQuery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set(agentAddress, agentID, allow("*"))
	c := w.asks(t, agentAddress)
	plain := question(t, "a.example.", dnsmessage.TypeA)
	for _, ignored := range [][]byte{
		{},
		plain[:7], plain[:len(plain)-1], make([]byte, 12),
		question(t, "a.example.", dnsmessage.TypeA, func(m *dnsmessage.Message) { m.Response = true }),
		question(t, "a.example.", dnsmessage.TypeA, func(m *dnsmessage.Message) {
			m.Questions = append(m.Questions, m.Questions[0])
		}),
		question(t, "a.example.", dnsmessage.TypeA, withEDNS(0), withEDNS(0)),
		append(slices.Clone(plain[:12]), 0xc0, 12, 0, 1, 0, 1), // a name that refers to itself
	} {
		if _, err := c.Write(ignored); err != nil {
			t.Fatal(err)
		}
	}
	// One socket's messages are answered in order, so what comes first answers the last one.
	last := question(t, "last.example.", dnsmessage.TypeA)
	if got := ask(t, c, last); got.Questions[0].Name.String() != "last.example." {
		t.Errorf("answer %+v to what is no query", got)
	}
}

func TestDNS_ServesTCP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set(agentAddress, agentID, allow("api.example.com"))
	c := w.open(t, agentAddress, w.queries)
	framed := func(q []byte) []byte { return append(binary.BigEndian.AppendUint16(nil, uint16(len(q))), q...) }
	_, _ = c.Write(slices.Concat(framed(question(t, "api.example.com.", dnsmessage.TypeA)),
		framed(question(t, "other.example.com.", dnsmessage.TypeA))))
	for _, code := range []dnsmessage.RCode{ok, noName} {
		var length uint16
		if err := binary.Read(c, binary.BigEndian, &length); err != nil {
			t.Fatal(err)
		}
		message := make([]byte, length)
		if _, err := io.ReadFull(c, message); err != nil {
			t.Fatal(err)
		}
		if got := unpack(t, message); got.RCode != code {
			t.Errorf("answer %+v, want code %d", got, code)
		}
	}
	_, _ = c.Write([]byte{0xff, 0xff})
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("a message of 64 KiB was awaited")
	}
}

func TestDNS_BoundsQueriesOfAnAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slow)
	w.set(agentAddress, agentID, allow("api.example.com"))
	w.set(otherAddress, otherID, allow("api.example.com"))
	c, limited := w.asks(t, agentAddress), 0
	for range 20 {
		if ask(t, c, question(t, "api.example.com.", dnsmessage.TypeA)).RCode == refused {
			limited++
		}
	}
	if limited < 10 {
		t.Errorf("%d of 20 queries were refused, want most", limited)
	}
	if got := ask(t, w.asks(t, otherAddress), question(t, "api.example.com.", dnsmessage.TypeA)); got.RCode != ok {
		t.Errorf("another agent got %+v", got)
	}
	w.end()
	if got := w.counted(agentID, "api.example.com"); got.Refused != 1 || got.Reason != egress.TooMany {
		t.Errorf("counted %+v, want one refusal for all", got)
	}
}

// TestDNS_HoldsUnknownAddresses: a pod may be faster than the watch.
func TestDNS_HoldsUnknownAddresses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, holding(patience))
	c := w.asks(t, agentAddress)
	if _, err := c.Write(question(t, "api.example.com.", dnsmessage.TypeA)); err != nil {
		t.Fatal(err)
	}
	w.set(otherAddress, otherID, allow("*"))
	w.set(agentAddress, agentID, allow("api.example.com"))
	buffer := make([]byte, 512)
	n, err := c.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	if got := unpack(t, buffer[:n]); got.RCode != ok || len(got.Answers) != 1 {
		t.Errorf("answer %+v, want the gate's address", got)
	}
}

func TestDNS_FailsForUnknownAddresses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, holding(10*time.Millisecond))
	got := ask(t, w.asks(t, strangerAddress), question(t, "api.example.com.", dnsmessage.TypeA))
	if got.RCode != dnsmessage.RCodeServerFailure {
		t.Errorf("answer %+v, want SERVFAIL", got)
	}
}

// TestDNS_ServesResolvers asks as programs do.
func TestDNS_ServesResolvers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set(agentAddress, agentID, allow("api.example.com"))
	r := net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return w.asks(t, agentAddress), nil
	}}
	got, err := r.LookupNetIP(t.Context(), "ip", "api.example.com.")
	if err != nil || len(got) != 1 || got[0].Unmap().String() != gateAddress {
		t.Errorf("LookupNetIP = %v, %v; want the gate's address", got, err)
	}
	if got, err := r.LookupNetIP(t.Context(), "ip", "other.example.com."); err == nil {
		t.Errorf("LookupNetIP of a name that is not listed = %v", got)
	}
}

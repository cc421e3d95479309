package gate

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"testing"

	"agents.example/controlplane/shared/egress"
)

// one is the Policies of a cell with one agent.
type one struct{ policy *egress.Policy }

func (o one) Lookup(netip.Addr) (Agent, bool) { return Agent{ID: "a", Policy: o.policy}, true }
func (one) Changed() <-chan struct{}          { return nil }

// FuzzRespond: no message makes the gate fail, amplify, or give another address than its own.
func FuzzRespond(f *testing.F) {
	f.Add([]byte("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x07example\x00\x00\x01\x00\x01"))
	f.Add([]byte("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\x01b\x07example\x00\x00\x10\x00\x01" +
		"\x00\x00\x29\x10\x00\x00\x00\x00\x00\x00\x00"))
	address := netip.MustParseAddr("192.0.2.1")
	g := offline(f, Options{Policies: one{&egress.Policy{Allow: []string{"a.example"}}}})
	f.Fuzz(func(t *testing.T, message []byte) {
		answer := g.respond(t.Context(), address, message)
		if answer == nil {
			return
		}
		if len(answer) > len(message)+16 || len(answer) > 512 {
			t.Errorf("%d bytes answer %d", len(answer), len(message))
		}
		if answer[2]&0x80 == 0 || !bytes.Equal(answer[:2], message[:2]) {
			t.Errorf("%x is no answer to %x", answer, message)
		}
	})
}

func TestReadMessage_RefusesLargeOnes(t *testing.T) {
	t.Parallel()
	if m, err := readMessage(bytes.NewReader(make([]byte, 4))); err != nil || len(m) != 0 {
		t.Errorf("an empty message: %x, %v", m, err)
	}
	large := append([]byte{0x10, 0x01}, make([]byte, maxQuery+1)...)
	if _, err := readMessage(bytes.NewReader(large)); err == nil {
		t.Errorf("a message of %d bytes was read", maxQuery+1)
	}
}

// FuzzPeek: what is read of a hello is what was sent, and nothing else is replayed.
func FuzzPeek(f *testing.F) {
	f.Add([]byte("\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03"))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		c := &canned{Reader: bytes.NewReader(sent)}
		name, read, err := peek(t.Context(), c, func(int) error { return nil })
		if !bytes.HasPrefix(sent, read) {
			t.Errorf("read %x of %x", read, sent)
		}
		if err != nil && name != "" {
			t.Errorf("name %q with %v", name, err)
		}
	})
}

// canned is a connection that only sends.
type canned struct {
	net.Conn
	*bytes.Reader
}

func (c *canned) Read(p []byte) (int, error)  { return c.Reader.Read(p) }
func (c *canned) Write(p []byte) (int, error) { return 0, errors.New("something was written") }

package gate

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"agents.example/controlplane/shared/egress"
)

// maxHello bounds the bytes before a ClientHello is complete. crypto/tls reads one of 64 KiB at most, and the records
// around it have their own headers.
const maxHello = 80 << 10

// Bounds of the memory of hellos that arrive, or wait until they are passed on. Agents choose how long their hellos
// are, and when they send the rest.
const (
	// maxHellos bounds that of all connections, without the freeHello bytes that each may have, which is more than
	// almost all have.
	maxHellos = 16 << 20
	freeHello = 4 << 10
	// helloCopies is how often a hello is in memory while it arrives: here, as a record, and as a message.
	helloCopies = 3
)

// errHellos means that the hellos of all connections take too much memory.
var errHellos = errors.New("too many large hellos")

// hold counts the bytes of a connection's hello, until release or Close.
func (k *link) hold(bytes int) error {
	cost := int64(max(0, bytes-freeHello) * helloCopies)
	if more := cost - k.held.Swap(cost); more != 0 && !k.owner.gate.hellos.Add(k.address, more) {
		return errHellos
	}
	return nil
}

// release means that the hello, or the header of a request, is in memory no more.
func (k *link) release() {
	if held := k.held.Swap(0); held != 0 {
		k.owner.gate.hellos.Add(k.address, -held)
	}
}

// headerCopies is how often the header of a request by HTTP/1 is in memory while it arrives, for each copy of a hello:
// short lines take much more than their bytes.
const headerCopies = 2

// arrive counts the bytes of a header by HTTP/1 within TLS, as hold counts those of a hello. It closes a connection for
// which there is no room: net/http would read on.
func (k *link) arrive(bytes int) error {
	if k.http2.Load() || k.serving.Load() {
		return nil
	}
	if k.hold(int(k.arrived.Add(int64(bytes)))*headerCopies) == nil {
		return nil
	}
	k.owner.gate.refused(k.agent(), k.hostName(), egress.TooMany)
	return errors.Join(errHellos, k.Close())
}

// serve means that the next bytes belong to no header, and expect that they do.
func (k *link) serve() {
	k.serving.Store(true)
	k.release()
}

func (k *link) expect() {
	k.arrived.Store(0)
	k.serving.Store(false)
}

// errHello ends the handshake after the ClientHello.
var errHello = errors.New("the ClientHello is complete")

// peek reads a ClientHello, and returns the name in it and all that it read. crypto/tls parses it, and refuses a hello
// that servers may understand differently, such as one with two names. hold gets the number of bytes that were read,
// and says whether there is room for them.
func peek(ctx context.Context, c net.Conn, hold func(bytes int) error) (name string, read []byte, err error) {
	recorder := &recorder{Conn: c, hold: hold}
	config := &tls.Config{ //nolint:gosec // no handshake is completed
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			name = hello.ServerName
			return nil, errHello
		},
	}
	if err = tls.Server(recorder, config).HandshakeContext(ctx); errors.Is(err, errHello) {
		return name, recorder.read, nil
	}
	return "", recorder.read, err
}

// recorder keeps what is read, and writes nothing.
type recorder struct {
	net.Conn
	read []byte
	hold func(bytes int) error
}

// Read implements net.Conn.
func (r *recorder) Read(p []byte) (int, error) {
	if len(r.read) >= maxHello {
		return 0, errTooLong
	}
	n, err := r.Conn.Read(p[:min(len(p), maxHello-len(r.read))])
	r.read = append(r.read, p[:n]...)
	if full := r.hold(len(r.read)); full != nil {
		return 0, full
	}
	return n, err
}

var errTooLong = errors.New("the ClientHello is too long")

// Write implements net.Conn. The alert of the handshake that was broken off would be a wrong one.
func (r *recorder) Write(p []byte) (int, error) { return len(p), nil }

// Close implements net.Conn.
func (r *recorder) Close() error { return nil }

// replay is a connection whose first bytes have been read before.
type replay struct {
	*link
	head []byte
}

// Read implements net.Conn.
func (r *replay) Read(p []byte) (int, error) {
	if len(r.head) == 0 {
		n, err := r.link.Read(p)
		if full := r.arrive(n); full != nil {
			return 0, full
		}
		return n, err
	}
	n := copy(p, r.head)
	if r.head = r.head[n:]; len(r.head) == 0 {
		r.head = nil
	}
	return n, nil
}

// alert is a fatal alert of TLS (RFC 8446, section 6).
type alert byte

const (
	alertInternalError    alert = 80
	alertUnrecognizedName alert = 112
)

// record returns the alert as it is sent before a handshake.
func (a alert) record() []byte {
	const kind, fatal = 21, 2
	return []byte{kind, 3, 3, 0, 2, fatal, byte(a)}
}

// send sends the alert and ends the connection. What the agent still sends is read for a while: otherwise the system
// resets the connection, and some agents do not see the alert.
func (a alert) send(k *link) {
	_, _ = k.Write(a.record())
	_ = k.CloseWrite()
	_ = k.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, k, lingerBytes)
}

const (
	lingerTime  = time.Second
	lingerBytes = 128 << 10
)

const (
	// maxSlow bounds the connections by HTTP/2 of which an agent reads nothing for Timeouts.Slow. All requests of such
	// a connection stay in memory, also those that have their whole answer, which no other limit counts.
	maxSlow = 8
	// maxStall is for how long an agent may read too little of such a connection.
	maxStall = time.Minute
)

// errSlow means that there are too many connections of which the agent reads nothing.
var errSlow = errors.New("the agent does not read what is sent to it")

// Write implements net.Conn.
func (r *replay) Write(p []byte) (int, error) {
	if !r.http2.Load() {
		return r.link.Write(p)
	}
	g := r.owner.gate
	_ = r.SetWriteDeadline(time.Now().Add(g.o.Timeouts.Slow))
	n, err := r.link.Write(p)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	a := r.agent()
	t := g.tenants.of(a.ID)
	defer t.slow.Add(-1)
	if t.slow.Add(1) > maxSlow {
		g.refused(a, r.hostName(), egress.TooMany)
		return n, errors.Join(errSlow, r.Close())
	}
	_ = r.SetWriteDeadline(time.Now().Add(maxStall))
	more, err := r.link.Write(p[n:])
	return n + more, err
}

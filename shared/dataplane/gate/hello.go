package gate

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"
)

// maxHello bounds the bytes before a ClientHello is complete. crypto/tls reads one of 64 KiB at most, and the records
// around it have their own headers.
const maxHello = 80 << 10

// errHello ends the handshake after the ClientHello.
var errHello = errors.New("the ClientHello is complete")

// peek reads a ClientHello, and returns the name in it and all that it read. crypto/tls parses it, and refuses a hello
// that servers may understand differently, such as one with two names.
func peek(ctx context.Context, c net.Conn) (name string, read []byte, err error) {
	recorder := &recorder{Conn: c}
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
}

// Read implements net.Conn.
func (r *recorder) Read(p []byte) (int, error) {
	if len(r.read) >= maxHello {
		return 0, errTooLong
	}
	n, err := r.Conn.Read(p[:min(len(p), maxHello-len(r.read))])
	r.read = append(r.read, p[:n]...)
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
		return r.link.Read(p)
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

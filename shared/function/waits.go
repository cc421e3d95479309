package function

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// The limits of boundWaits.
const (
	// bodyGrace is how long a request's body may take in addition to its length at clientRate, up to bodyTimeout. A
	// body of DefaultBodyLimit may take 15 seconds.
	bodyGrace   = 5 * time.Second
	bodyTimeout = 30 * time.Second
	// clientRate is the least rate of a client, in bytes a second.
	clientRate = DefaultBodyLimit / 10
	// writeGrace is how long one write of a response may take in addition to its length at clientRate.
	writeGrace = 30 * time.Second

	// discardBytes and discardTimeout bound what the server reads of an unread body before the response, so that
	// clients with small bodies keep their connection.
	discardBytes   = 64 << 10
	discardTimeout = 50 * time.Millisecond
	// lingerTimeout bounds how long the server reads an unread body after the response. If it closed the connection
	// immediately, a client that is still sending might never see the response.
	lingerTimeout = 2 * time.Second
)

// boundWaits bounds how long a request waits for its client to send the body and to receive the response.
//
// A response before the end of the body does not wait for the rest: it closes the connection. Without boundWaits,
// net/http reads up to 256 KiB of an unread body before it sends the response, however long that takes.
func boundWaits(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		bounded := &boundedWriter{ResponseWriter: w, control: http.NewResponseController(w)}
		if req.Body != nil && req.Body != http.NoBody {
			bounded.body = &boundedBody{
				ReadCloser: req.Body, control: bounded.control, length: req.ContentLength,
				awaited: req.Header.Get("Expect") != "",
			}
			// net/http decides by the type of the body in its own request, so this changes a copy.
			req = req.WithContext(req.Context())
			req.Body = bounded.body
		}
		h.ServeHTTP(bounded, req)
		bounded.writeHeader(http.StatusOK)
	})
}

// boundedBody is a request's body that must arrive in time.
type boundedBody struct {
	io.ReadCloser
	control *http.ResponseController
	// length is the declared length, or -1.
	length int64
	// awaited means that the client sends the body only after a read of it.
	awaited bool

	began    time.Time // zero until the first read
	received int64
	ended    bool
	// given is true after giveUp.
	given atomic.Bool
}

// giveUp ends the wait for the body, also that of a read in another goroutine.
func (b *boundedBody) giveUp() {
	b.given.Store(true)
	_ = b.control.SetReadDeadline(time.Unix(1, 0))
}

// Read implements io.Reader. A body that is too slow, or given up, gives os.ErrDeadlineExceeded.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.began.IsZero() {
		b.began, b.awaited = time.Now(), false
	}
	_ = b.control.SetReadDeadline(b.began.Add(min(bodyGrace+timeOf(b.received), bodyTimeout)))
	if b.given.Load() { // after the deadline, which would replace that of giveUp
		return 0, os.ErrDeadlineExceeded
	}
	n, err := b.ReadCloser.Read(p)
	b.received += int64(n)
	b.ended = b.ended || errors.Is(err, io.EOF) // net/http removes the deadline at the end
	return n, err
}

// discard reads what the client has already sent, and reports whether the body has ended.
func (b *boundedBody) discard() bool {
	if !b.ended && !b.awaited && b.length-b.received <= discardBytes {
		_ = b.control.SetReadDeadline(time.Now().Add(discardTimeout))
		_, err := io.CopyN(io.Discard, b.ReadCloser, discardBytes+1)
		b.ended = errors.Is(err, io.EOF)
	}
	if !b.ended {
		_ = b.control.SetReadDeadline(time.Now().Add(lingerTimeout))
	}
	return b.ended
}

// boundedWriter writes a response that the client must receive in time.
type boundedWriter struct {
	http.ResponseWriter
	control     *http.ResponseController
	body        *boundedBody // nil for a request without a body
	wroteHeader bool
}

// WriteHeader implements http.ResponseWriter.
func (w *boundedWriter) WriteHeader(status int) {
	if status < http.StatusOK {
		w.wroteHeader = w.wroteHeader || status == http.StatusSwitchingProtocols // what follows is not HTTP's
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.writeHeader(status)
}

func (w *boundedWriter) writeHeader(status int) {
	if w.wroteHeader {
		return
	}
	w.wroteHeader = true
	if w.body != nil && !w.body.discard() {
		w.Header().Set("Connection", "close")
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *boundedWriter) Write(p []byte) (int, error) {
	w.writeHeader(http.StatusOK)
	_ = w.control.SetWriteDeadline(time.Now().Add(writeGrace + timeOf(int64(len(p)))))
	return w.ResponseWriter.Write(p)
}

// Unwrap gives http.ResponseController access to the connection.
func (w *boundedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// timeOf returns how long bytes take at clientRate.
func timeOf(bytes int64) time.Duration {
	return time.Duration(bytes) * time.Second / clientRate
}

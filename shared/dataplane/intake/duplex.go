package intake

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// restTime bounds how long the server reads what is left of a request's body before it closes the connection, so
// that a client that is still sending finds the answer.
const restTime = 2 * time.Second

// Writer writes the answer to a request, which may begin before the request's body has ended.
type Writer struct {
	http.ResponseWriter
	body body
	// persistent means that the client's connection serves one request after the other, as HTTP/1.1 does.
	persistent bool
	// last means that the handler wants no other request on the connection.
	last   bool
	status int
	// wrote means that the answer has a body.
	wrote bool
}

// Duplex enables full duplex for a request. It returns the writer of the answer, and the request to forward. The
// handler must call Finish before it returns. A Connection: close that it has set before stays: httputil.ReverseProxy
// clears the header of the answer after a 100 or a 103.
//
// Without full duplex, the server closes the request's body when the answer begins. If a transport is about to read the
// end of that body, it takes the closed body for an error and cuts the answer.
func Duplex(w http.ResponseWriter, req *http.Request) (*Writer, *http.Request) {
	_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/2 has it anyway
	x := &Writer{ResponseWriter: w, persistent: req.ProtoMajor == 1, last: w.Header().Get("Connection") == "close"}
	if req.Body != nil && req.Body != http.NoBody {
		x.body.ReadCloser = req.Body
		// The server keeps its own request. It looks at the body's type to see whether it can reuse the connection.
		req = req.WithContext(req.Context())
		req.Body = &x.body
	}
	return x, req
}

// Finish ends a read of the request's body that is still in flight, because the transport may read for longer than the
// proxy. If such a read reaches the body's end while the server finishes the request, the server would wait until the
// client sends more.
func (w *Writer) Finish() {
	if !w.persistent || !w.body.unread() {
		return
	}
	c := http.NewResponseController(w.ResponseWriter)
	if c.SetReadDeadline(time.Unix(1, 0)) != nil {
		return // the read cannot be ended
	}
	w.body.close()
	_ = c.SetReadDeadline(time.Now().Add(restTime)) // it was supported
}

// Status returns the status of the answer, or 0 if it has not begun.
func (w *Writer) Status() int { return w.status }

// BodyFailed reports whether the request's body broke off before its end.
func (w *Writer) BodyFailed() bool { return w.body.failed.Load() }

// Unwrap lets http.ResponseController flush and hijack.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
//
// An answer that begins before the request's body has ended is the last one of its connection, and says so. What is
// left of the body must not be read as another request. And in full duplex, net/http panics on such a connection when
// it awaits the next request (golang/go#68560), so the client would lose a request that it has already sent.
func (w *Writer) WriteHeader(status int) {
	if status >= http.StatusOK && w.status == 0 {
		w.status = status
		if w.last || w.persistent && w.body.unread() {
			w.Header().Set("Connection", "close")
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *Writer) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.wrote = w.wrote || len(b) > 0
	return w.ResponseWriter.Write(b)
}

// FlushBody waits until the client has taken the body of an answer by HTTP/2, apart from what the system holds. Without
// it, the server waits after the handler. An answer without a body ends with its header: some clients insist on that.
func (w *Writer) FlushBody() {
	if w.wrote && !w.persistent {
		_ = http.NewResponseController(w.ResponseWriter).Flush() // the client is gone, or has it
	}
}

// body is the body that a client sends. It remembers whether it ended, and whether the client broke it.
type body struct {
	io.ReadCloser
	ended, failed atomic.Bool
	mu            sync.Mutex // held by a read
	closed        bool
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.ended.Store(true)
	case err != nil:
		b.failed.Store(true)
	}
	return n, err
}

// close waits for the end of a read in flight. The body gives nothing after that.
func (b *body) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}

// unread reports whether a part of the body may still have to be read.
func (b *body) unread() bool { return b.ReadCloser != nil && !b.ended.Load() }

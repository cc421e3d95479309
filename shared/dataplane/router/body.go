package router

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
)

// maxEarly bounds how much of a body is read while its request is held. It is a part of bodyMemory: no buffer of the
// transport is in use then.
const maxEarly = 32 << 10

// earlyBody is the beginning of the body of a held request, mostly all of it. The server notices that a client goes
// away only after it has read the request's body, and an agent that wakes must not get what no client waits for any
// more, such as each attempt of a sender that repeats its requests.
type earlyBody struct {
	done chan struct{}
	rest io.Reader
	data []byte
	err  error // nil if there is more
}

// readEarly begins to read. The end of the handler ends that.
func readEarly(req *http.Request) *earlyBody {
	size := int64(maxEarly)
	if req.ContentLength >= 0 {
		size = min(size, req.ContentLength+1) // the end is known when a read finds it
	}
	e := &earlyBody{done: make(chan struct{}), rest: req.Body}
	go func() {
		defer close(e.done)
		data := make([]byte, 0, size)
		for len(data) < cap(data) && e.err == nil {
			var n int
			n, e.err = e.rest.Read(data[len(data):cap(data)])
			data = data[:len(data)+n]
		}
		e.data = data
	}()
	return e
}

// ended reports whether nothing more is read while the request is held.
func (e *earlyBody) ended() bool {
	if e == nil {
		return true
	}
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// broken returns why the body broke off while the request was held.
func (e *earlyBody) broken() error {
	if e == nil || !e.ended() || errors.Is(e.err, io.EOF) {
		return nil
	}
	return e.err
}

// reader returns the whole body.
func (e *earlyBody) reader() io.Reader {
	if e.err == nil {
		return io.MultiReader(bytes.NewReader(e.data), e.rest)
	}
	return bytes.NewReader(e.data) // a broken one is not sent
}

// lentBody is the body of a request for one attempt to send it.
type lentBody struct {
	io.Reader
	mu          sync.Mutex
	read, ended bool
}

// lend returns the body of a request for an attempt to send it; nil for a request without one.
func lend(x *exchange, req *http.Request) *lentBody {
	switch {
	case req.Body == nil:
		return nil
	case x.early != nil:
		return &lentBody{Reader: x.early.reader()}
	default:
		return &lentBody{Reader: req.Body}
	}
}

// Read implements io.Reader.
func (b *lentBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	ended := b.ended
	b.read = b.read || !ended
	b.mu.Unlock()
	if ended {
		return 0, http.ErrBodyReadAfterClose
	}
	return b.Reader.Read(p)
}

// Close implements io.Closer. It leaves the body open for another attempt.
func (*lentBody) Close() error { return nil }

// takeBack ends the attempt, and reports whether it has left the body unread.
func (b *lentBody) takeBack() bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	return !b.read
}

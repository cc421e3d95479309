package podlogs

import (
	"context"
	"errors"
	"io"
	"time"
)

// waits bound the waits of one request.
type waits struct {
	// answer bounds the wait for the header of the response.
	answer time.Duration
	// silence bounds the wait for further bytes of the body; zero means no limit.
	silence time.Duration
}

const (
	answerWait  = 10 * time.Second
	silenceWait = 20 * time.Second
)

var errSilent = errors.New("the API server did not answer in time")

// limit ends a request unless it is stopped in time.
type limit struct {
	timer *time.Timer
	wait  time.Duration
}

// startLimit starts a limit; a wait of zero never ends the request.
func startLimit(cancel context.CancelCauseFunc, wait time.Duration) limit {
	if wait == 0 {
		return limit{}
	}
	return limit{time.AfterFunc(wait, func() { cancel(errSilent) }), wait}
}

func (l limit) restart() {
	if l.timer != nil {
		l.timer.Reset(l.wait)
	}
}

func (l limit) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

// body is the body of a response, whose request ends when it is closed.
type body struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
	limit  limit
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.limit.restart()
	defer b.limit.stop()
	return b.ReadCloser.Read(p)
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.limit.stop()
	b.cancel(nil)
	return b.ReadCloser.Close()
}

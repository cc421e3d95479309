package agentlog

import (
	"context"
	"errors"
	"io"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
)

// The times of a follower.
const (
	// patience is how long a follower waits for the agent's next container, or for a cell that does not answer.
	patience = 30 * time.Second
	// minPause and maxPause bound the time between two looks at an agent whose container has ended.
	minPause = time.Second
	maxPause = 8 * time.Second
	// batch is the maximum number of lines that are sent together.
	batch = 256
)

// Follower follows the log of one agent, also across restarts of its container.
type Follower struct {
	Source Source
	Agent  agent.Agent
	// GetsPod reports whether the agent gets another pod by itself. nil means that it does.
	GetsPod func(ctx context.Context) bool
	// Shutdown ends the answer when it is closed; nil means never.
	Shutdown <-chan struct{}
	// Flush sends what the encoder wrote to the client.
	Flush func() error
}

// delivery is what a follower's reader passes on: a line, or the end with its error.
type delivery struct {
	line Line
	at   Position
	err  error
}

// Follow writes the lines of a stream that follows a log, and of those that it opens after it. It ends normally when
// the client goes away, after MaxFollow, at a shutdown, when the agent has no pod and gets no other one, and some time
// after the agent has lost its pod otherwise. It closes the stream. Errors: Unavailable if the log can no longer be
// read, and those of the encoder.
func (f *Follower) Follow(ctx context.Context, s Stream, e Encoder) error {
	reading, stop := context.WithCancel(ctx)
	deliveries := make(chan delivery, batch)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.read(reading, s, deliveries)
	}()
	defer func() {
		stop()
		<-done
	}()
	if err := errors.Join(e.Begin(), f.Flush()); err != nil {
		return err
	}
	end := time.NewTimer(MaxFollow)
	defer end.Stop()
	heartbeat := time.NewTicker(Heartbeat)
	defer heartbeat.Stop()
	for {
		var err error
		ended := false
		select {
		case d := <-deliveries:
			ended, err = writeBatch(e, d, deliveries)
		case <-heartbeat.C:
			err = e.Heartbeat()
		case <-end.C:
			ended = true
		case <-f.Shutdown:
			ended = true
		case <-ctx.Done():
			return nil
		}
		if flushed := f.Flush(); err == nil {
			err = flushed
		}
		if err != nil || ended {
			return err
		}
	}
}

// writeBatch writes a delivery and those that wait behind it. It reports whether the log has ended.
func writeBatch(e Encoder, d delivery, more <-chan delivery) (ended bool, err error) {
	for range batch {
		if d.err != nil {
			if errors.Is(d.err, io.EOF) {
				return true, nil
			}
			return true, d.err
		}
		if err := e.Line(d.line, d.at); err != nil {
			return true, err
		}
		select {
		case d = <-more:
		default:
			return false, nil
		}
	}
	return false, nil
}

// read passes on the lines of a stream. When it ends, read continues at the same position, which is in the agent's next
// container once it has started.
func (f *Follower) read(ctx context.Context, s Stream, to chan<- delivery) {
	send := func(d delivery) bool {
		select {
		case to <- d:
			return true
		case <-ctx.Done():
			return false
		}
	}
	var failing time.Time // since when no stream could be opened
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		at := s.Position()
		if !f.readStream(ctx, s, send) {
			return
		}
		if !s.Position().is(at) {
			pause = minPause
		}
		at = s.Position()
		for next := Stream(nil); next == nil; {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
			var err error
			next, err = f.Source.Open(ctx, f.Agent, Options{Follow: true, After: at})
			switch {
			case err == nil:
				s, failing = next, time.Time{}
			case fault.Is(err, fault.Conflict) && f.GetsPod != nil && !f.GetsPod(ctx):
				send(delivery{err: io.EOF})
				return
			case failing.IsZero():
				failing = time.Now()
			case time.Since(failing) >= patience:
				if fault.Is(err, fault.Conflict) {
					err = io.EOF
				}
				send(delivery{err: err})
				return
			}
		}
	}
}

// readStream passes on the lines of one stream and closes it. It reports whether the reader goes on.
func (f *Follower) readStream(ctx context.Context, s Stream, send func(delivery) bool) bool {
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	defer func() { _ = s.Close() }()
	for {
		l, err := s.Next()
		if err != nil {
			return true // the end, or a broken connection: both continue at the position
		}
		if !send(delivery{line: l, at: s.Position()}) {
			return false
		}
	}
}

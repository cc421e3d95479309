package agentexec_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentexec"
	"agents.example/controlplane/shared/agentexec/agentexectest"
	"agents.example/controlplane/shared/agentexec/channel"
)

// endless is a side that always has a frame and takes none, until ctx ends.
type endless struct {
	channel channel.Channel
	read    atomic.Int64 // bytes
}

func (e *endless) Read(ctx context.Context) (channel.Frame, error) {
	if ctx.Err() != nil {
		return channel.Frame{}, context.Cause(ctx)
	}
	e.read.Add(channel.MaxFrame)
	return channel.Frame{Channel: e.channel, Data: make([]byte, channel.MaxFrame)}, nil
}

func (e *endless) Write(ctx context.Context, _ channel.Frame) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func (*endless) Close() error { return nil }

// TestRelay_HoldsOneFrameOfEachDirection connects two sides that send as fast as they may and take nothing.
func TestRelay_HoldsOneFrameOfEachDirection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, command := &endless{channel: channel.Input}, &endless{channel: channel.Output}
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-time.After(time.Minute)
			cancel(errors.New("enough"))
		}()
		_, err := agentexec.Relay(ctx, client, command, time.Hour, func(error) {})
		if err == nil || err.Error() != "enough" {
			t.Errorf("the relay ended with %v", err)
		}
		for name, side := range map[string]*endless{"client": client, "command": command} {
			if got := side.read.Load(); got != channel.MaxFrame {
				t.Errorf("the relay holds %d bytes of the %s, want one frame of %d", got, name, channel.MaxFrame)
			}
		}
	})
}

// silent is a side that sends nothing.
type silent struct{ endless }

func (*silent) Read(ctx context.Context) (channel.Frame, error) {
	<-ctx.Done()
	return channel.Frame{}, context.Cause(ctx)
}

func TestRelay_EndsWhenNothingHappens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var told error
		_, err := agentexec.Relay(t.Context(), &silent{}, &silent{}, agentexec.MaxIdle, func(end error) { told = end })
		if !errors.Is(err, agentexec.ErrIdle) || !errors.Is(told, agentexec.ErrIdle) {
			t.Errorf("the relay ended with %v and told %v, want ErrIdle", err, told)
		}
		if d := time.Since(began); d != agentexec.MaxIdle {
			t.Errorf("it ended after %s, want %s", d, agentexec.MaxIdle)
		}
	})
}

// counting counts how far a reader is ahead of a writer.
type counting struct {
	ahead, most int64
	left        int64
}

func (c *counting) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), c.left)
	c.left -= n
	c.most = max(c.most, atomic.AddInt64(&c.ahead, n))
	return int(n), nil
}

func (c *counting) Write(p []byte) (int, error) {
	atomic.AddInt64(&c.ahead, -int64(len(p)))
	return len(p), nil
}

// TestRun_StreamsAnyInput copies a gigabyte through a command, and counts the bytes that are under way.
func TestRun_StreamsAnyInput(t *testing.T) {
	t.Parallel()
	cell := agentexectest.NewCell(map[string]agentexectest.Program{
		"cat": func(_ context.Context, p *agentexectest.Process) int {
			buffer := make([]byte, channel.MaxFrame)
			_, _ = io.CopyBuffer(struct{ io.Writer }{p.Stdout}, struct{ io.Reader }{p.Stdin}, buffer)
			return 0
		},
	})
	c := &counting{left: 1 << 30}
	code, err := agentexec.Run(t.Context(), cell, agent.Agent{}, agentexec.Task{
		Args: []string{"cat"}, Input: c, Output: c,
	})
	if err != nil || code != 0 || c.ahead != 0 || c.left != 0 {
		t.Errorf("exit code %d, %v, %d bytes missing", code, err, c.ahead)
	}
	if c.most > 4*channel.MaxFrame {
		t.Errorf("%d bytes were held, want at most 4 frames", c.most)
	}
}

func TestRun_EndsWithItsWriterItsInputAndItsContext(t *testing.T) {
	t.Parallel()
	forever := func(ctx context.Context, p *agentexectest.Process) int {
		for ctx.Err() == nil {
			if _, err := p.Stdout.Write([]byte("more")); err != nil {
				break
			}
		}
		return 1
	}
	cell := agentexectest.NewCell(map[string]agentexectest.Program{"yes": forever})
	broken := errors.New("broken")
	timely, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, broken)
	defer cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		task agentexec.Task
	}{
		"a writer that fails": {ctx: t.Context(), task: agentexec.Task{Output: failing{broken}}},
		"an input that fails": {ctx: t.Context(), task: agentexec.Task{Input: failing{broken}}},
		"a time that is over": {ctx: timely},
	} {
		c.task.Args = []string{"yes"}
		if _, err := agentexec.Run(c.ctx, cell, agent.Agent{}, c.task); !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestLimited_KeepsTheBeginning(t *testing.T) {
	t.Parallel()
	l := &agentexec.Limited{Limit: 5}
	for _, part := range []string{"abc", "def", strings.Repeat("g", 100)} {
		if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("Write: %d, %v", n, err)
		}
	}
	if string(l.Bytes) != "abcde" || !l.Truncated || l.Written != 106 {
		t.Errorf("kept %q, truncated %t, written %d", l.Bytes, l.Truncated, l.Written)
	}
}

package agentexec

import (
	"context"
	"errors"
	"fmt"
	"io"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentexec/channel"
)

// Task is a command with its streams.
type Task struct {
	Args []string
	// Input is empty if it is nil.
	Input io.Reader
	// Output and Errors discard if they are nil.
	Output, Errors io.Writer
	// Reader is that of Command.
	Reader bool
}

// Run runs a command to its end. It passes the input on as the command reads it, and the outputs as the writers take
// them: it holds one frame of each. An error of a writer ends the run. Errors: those of Source and Stream, of the input
// and the writers, and that of ctx.
func Run(ctx context.Context, from Source, a agent.Agent, t Task) (exitCode int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s, err := from.Open(ctx, a, Command{Args: t.Args, Input: t.Input != nil, Reader: t.Reader})
	if err != nil {
		return 0, err
	}
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		if err := feed(ctx, s, t.Input); err != nil {
			cancel(err)
		}
	}()
	exitCode, err = drain(ctx, s, t.Output, t.Errors)
	cancel(nil)
	_ = s.Close()
	if wakes, ok := t.Input.(io.Closer); ok {
		_ = wakes.Close() // ends a read of an input that the command does not want
	}
	<-fed
	if cause := context.Cause(ctx); err != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	return exitCode, err
}

// feed passes an input on.
func feed(ctx context.Context, s Stream, input io.Reader) error {
	if input == nil {
		return nil
	}
	if err := channel.Feed(ctx, s, input); err != nil {
		return fmt.Errorf("read the input: %w", err)
	}
	return nil
}

// drain writes the outputs until the command ends.
func drain(ctx context.Context, s Stream, output, errs io.Writer) (exitCode int, err error) {
	for {
		f, err := s.Read(ctx)
		if exit, ok := errors.AsType[*Exit](err); ok {
			return exit.Code, nil
		}
		if err != nil {
			return 0, err
		}
		to := output
		if f.Channel == channel.Errors {
			to = errs
		}
		if to == nil {
			continue
		}
		if _, err := to.Write(f.Data); err != nil {
			return 0, err
		}
	}
}

// Limited keeps the first bytes that are written to it, and drops the others.
type Limited struct {
	Limit     int
	Bytes     []byte
	Truncated bool
	// Written is how many bytes were written to it.
	Written int64
}

// Write implements io.Writer.
func (l *Limited) Write(p []byte) (int, error) {
	l.Written += int64(len(p))
	kept := p[:min(len(p), l.Limit-len(l.Bytes))]
	l.Bytes = append(l.Bytes, kept...)
	l.Truncated = l.Truncated || len(kept) < len(p)
	return len(p), nil
}

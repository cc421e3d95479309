// Package agentexectest has a cell whose containers run programs in the test's memory.
package agentexectest

import (
	"context"
	"io"
	"sync"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentexec"
	"agents.example/controlplane/shared/agentexec/channel"
)

// Program runs in a container. It returns when it ends, or when ctx does.
type Program func(ctx context.Context, p *Process) (exitCode int)

// Process is what a program has.
type Process struct {
	Args           []string
	Terminal       bool
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Sizes has the sizes of the terminal as the client sent them.
	Sizes <-chan string
}

// Cell is a cell in which every agent has a container with the same programs.
type Cell struct {
	mu       sync.Mutex
	programs map[string]Program
	fail     error
	opened   []agentexec.Command
}

var _ agentexec.Source = (*Cell)(nil)

// NewCell returns a cell whose image has programs.
func NewCell(programs map[string]Program) *Cell { return &Cell{programs: programs} }

// Install adds a program to the image, or replaces it.
func (c *Cell) Install(name string, p Program) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.programs[name] = p
}

// Remove removes a program from the image.
func (c *Cell) Remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.programs, name)
}

// Fail makes every further command fail; nil ends that.
func (c *Cell) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = err
}

// Opened lists the commands that were started.
func (c *Cell) Opened() []agentexec.Command {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]agentexec.Command(nil), c.opened...)
}

// Open implements agentexec.Source.
func (c *Cell) Open(ctx context.Context, _ agent.Agent, command agentexec.Command) (agentexec.Stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return nil, c.fail
	}
	c.opened = append(c.opened, command)
	ctx, cancel := context.WithCancel(ctx)
	s := &stream{
		cancel: cancel, frames: make(chan channel.Frame), sizes: make(chan string, 100), ended: make(chan struct{}),
	}
	var stdin *io.PipeReader
	stdin, s.stdin = io.Pipe()
	if !command.Input {
		_ = s.stdin.Close()
	}
	run, ok := c.programs[command.Args[0]]
	go func() {
		defer close(s.ended)
		if !ok {
			s.end = agentexec.NotFound()
			return
		}
		s.end = &agentexec.Exit{Code: run(ctx, &Process{
			Args: command.Args, Terminal: command.Terminal, Stdin: stdin, Sizes: s.sizes,
			Stdout: output{ctx, s, channel.Output}, Stderr: output{ctx, s, channel.Errors},
		})}
		if ctx.Err() != nil { // whoever reads learns that, and no exit code
			s.end = context.Cause(ctx)
		}
		_ = stdin.Close()
	}()
	return s, nil
}

type stream struct {
	cancel func()
	stdin  *io.PipeWriter
	frames chan channel.Frame
	sizes  chan string
	ended  chan struct{}
	end    error // written before ended is closed
}

// Read implements agentexec.Stream.
func (s *stream) Read(ctx context.Context) (channel.Frame, error) {
	select {
	case f := <-s.frames:
		return f, nil
	case <-s.ended:
		return channel.Frame{}, s.end
	case <-ctx.Done():
		return channel.Frame{}, context.Cause(ctx)
	}
}

// Write implements agentexec.Stream.
func (s *stream) Write(ctx context.Context, f channel.Frame) error {
	defer context.AfterFunc(ctx, func() { _ = s.stdin.CloseWithError(context.Cause(ctx)) })()
	switch f.Channel {
	case channel.Input:
		_, err := s.stdin.Write(f.Data)
		return err
	case channel.Resize:
		s.sizes <- string(f.Data)
	case channel.Close:
		return s.stdin.Close()
	case channel.Output, channel.Errors, channel.Status, channel.Shown: // no client sends them
	}
	return nil
}

// Close implements agentexec.Stream.
func (s *stream) Close() error {
	s.cancel()
	return s.stdin.CloseWithError(io.ErrClosedPipe)
}

// output makes frames of what a program writes.
type output struct {
	ctx     context.Context //nolint:containedctx // of one command
	stream  *stream
	channel channel.Channel
}

// Write implements io.Writer.
func (o output) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); {
		part := append([]byte(nil), p[sent:min(len(p), sent+channel.MaxFrame)]...)
		select {
		case o.stream.frames <- channel.Frame{Channel: o.channel, Data: part}:
			sent += len(part)
		case <-o.ctx.Done():
			return sent, context.Cause(o.ctx)
		}
	}
	return len(p), nil
}

package agentexec

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"agents.example/controlplane/shared/agentexec/channel"
)

// Ends of a relay that neither the command nor the context of the caller caused.
var (
	// ErrClientGone means that the client closed its side.
	ErrClientGone = errors.New("the client closed the connection")
	// ErrIdle means that there was neither input nor output.
	ErrIdle = errors.New("the terminal was idle")
)

// Traffic counts the bytes that a relay passed on.
type Traffic struct{ Input, Output int64 }

// Relay passes frames on between a client and a command, until one of them ends. It holds one frame of each direction,
// so a side that does not read holds the other one up. The error says what ended it: an *Exit, another error of the
// stream, ErrClientGone, ErrIdle, or the cause of ctx. Before it returns, it tells the client: farewell gets the error
// while the connection is still open, and must close it.
func Relay(
	ctx context.Context, client channel.Conn, command Stream, idle time.Duration, farewell func(error),
) (Traffic, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	alive := time.AfterFunc(idle, func() { end(ErrIdle) })
	defer alive.Stop()
	// A canceled read or write would close the client's WebSocket before the farewell.
	open, closed := context.WithCancel(context.WithoutCancel(ctx))
	defer closed()
	var t traffic
	var both sync.WaitGroup
	both.Go(func() { end(t.passInput(ctx, open, client, command, func() { alive.Reset(idle) })) })
	both.Go(func() { end(t.passOutput(ctx, open, command, client, func() { alive.Reset(idle) })) })
	<-ctx.Done()
	cause := context.Cause(ctx)
	farewell(cause)
	closed()
	both.Wait()
	return Traffic{Input: t.input.Load(), Output: t.output.Load()}, cause
}

type traffic struct{ input, output atomic.Int64 }

func (t *traffic) passInput(ctx, open context.Context, client, command channel.Conn, used func()) error {
	for {
		f, err := client.Read(open)
		if err != nil {
			return ErrClientGone
		}
		switch f.Channel {
		case channel.Input:
			used()
			t.input.Add(int64(len(f.Data)))
		case channel.Resize, channel.Close:
		case channel.Output, channel.Errors, channel.Status, channel.Shown: // clients send no such frames
			continue
		}
		if err := command.Write(ctx, f); err != nil {
			<-ctx.Done() // the reader of the command learns how it ended
			return err
		}
	}
}

func (t *traffic) passOutput(ctx, open context.Context, command, client channel.Conn, used func()) error {
	for {
		f, err := command.Read(ctx)
		if err != nil {
			return err
		}
		used()
		t.output.Add(int64(len(f.Data)))
		if err := client.Write(open, f); err != nil {
			return ErrClientGone
		}
	}
}

package agentexec_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/agentexec"
	"agents.example/controlplane/shared/agentexec/channel"
)

// page is a client that takes whatever arrives, as a browser does.
type page struct {
	sends chan channel.Frame
	got   int64
}

func (p *page) Read(ctx context.Context) (channel.Frame, error) {
	select {
	case f := <-p.sends:
		return f, nil
	case <-ctx.Done():
		return channel.Frame{}, context.Cause(ctx)
	}
}

func (p *page) Write(_ context.Context, f channel.Frame) error {
	p.got += int64(len(f.Data))
	return nil
}

func (p *page) shows(n int64) {
	p.sends <- channel.Frame{Channel: channel.Shown, Data: strconv.AppendInt(nil, n, 10)}
}

// printing is a command that prints without end, at most so many bytes in a test.
type printing struct {
	endless
	most  int64
	takes chan channel.Frame // its input
}

func (c *printing) Read(ctx context.Context) (channel.Frame, error) {
	if c.read.Load() >= c.most {
		<-ctx.Done()
	}
	return c.endless.Read(ctx)
}

func (c *printing) Write(ctx context.Context, f channel.Frame) error {
	select {
	case c.takes <- f:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// relayPaced relays until the test ends.
func relayPaced(t *testing.T, client *page, command *printing) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = agentexec.Relay(ctx, channel.NewPaced(client), command, time.Hour, func(error) {})
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

// TestPaced_SendsWhatTheClientCanShow counts the bytes that a page holds, which shows some, or none.
func TestPaced_SendsWhatTheClientCanShow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := &page{sends: make(chan channel.Frame)}
		relayPaced(t, client, &printing{endless: endless{channel: channel.Output}, most: 16 << 20})
		shown := int64(0)
		for _, more := range []int64{0, channel.MaxFrame, channel.Window, 1, 3 * channel.MaxFrame} {
			if more > 0 {
				client.shows(more)
				shown += more
			}
			synctest.Wait() // everything waits for the page
			if held := client.got - shown; held < channel.Window || held >= channel.Window+channel.MaxFrame {
				t.Errorf("after %d shown bytes, the page holds %d, want a window of %d and less than a frame more",
					shown, held, channel.Window)
			}
		}
	})
}

// TestPaced_LetsAnUnreadInputPass: a paste into a program that prints it before it reads on. What the page has shown
// arrives behind the paste, so the two must not wait for each other.
func TestPaced_LetsAnUnreadInputPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := &page{sends: make(chan channel.Frame)}
		command := &printing{
			endless: endless{channel: channel.Output}, most: 4 * channel.Window, takes: make(chan channel.Frame),
		}
		relayPaced(t, client, command)
		client.sends <- channel.Frame{Channel: channel.Input, Data: []byte("a paste")}
		synctest.Wait()
		if client.got != command.most {
			t.Errorf("the page got %d bytes, want all %d of the program", client.got, command.most)
		}
		if f := <-command.takes; string(f.Data) != "a paste" {
			t.Errorf("the program got %q, want the paste", f.Data)
		}
	})
}

package channel

import (
	"context"
	"strconv"
	"sync"
)

// PacedProtocol is Protocol for a client that says what it has shown. A browser takes from a WebSocket whatever
// arrives: without it, a program that prints faster than the page can show fills the memory of the page.
const PacedProtocol = "paced.v5.channel"

// Window is how many bytes of outputs a client of PacedProtocol gets before it says that it has shown them.
const Window = 256 << 10

// Paced is the service's side of a connection with PacedProtocol. A Write of an output waits while the client has a
// window to show.
type Paced struct {
	Conn

	mu      sync.Mutex
	pending int64         // bytes of outputs that the client has not shown
	unread  bool          // the command has not taken the client's last input
	changed chan struct{} // closed by a change of the others
}

// NewPaced returns the service's side of a connection.
func NewPaced(conn Conn) *Paced { return &Paced{Conn: conn, changed: make(chan struct{})} }

// Read implements Conn.
func (p *Paced) Read(ctx context.Context) (Frame, error) {
	p.change(func() { p.unread = false })
	defer p.change(func() { p.unread = true })
	for {
		f, err := p.Conn.Read(ctx)
		if err != nil || f.Channel != Shown {
			return f, err
		}
		if n, err := strconv.ParseInt(string(f.Data), 10, 64); err == nil {
			p.change(func() { p.pending = max(p.pending-max(n, 0), 0) })
		}
	}
}

func (p *Paced) change(how func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	how()
	close(p.changed)
	p.changed = make(chan struct{})
}

// Write implements Conn. What the client says arrives behind its input. While a command does not take that, the outputs
// pass: most commands go on to read when they have written.
func (p *Paced) Write(ctx context.Context, f Frame) error {
	for f.Channel == Output || f.Channel == Errors {
		p.mu.Lock()
		if p.pending < Window || p.unread {
			p.pending += int64(len(f.Data))
			p.mu.Unlock()
			break
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return p.Conn.Write(ctx, f)
}

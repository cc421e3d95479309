//go:build unix

package gobuild

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// How often progress is shown. On a terminal it rewrites a line; elsewhere each time is another line.
const (
	terminalInterval = 200 * time.Millisecond
	plainInterval    = 20 * time.Second
)

// Progress shows what is being done. It shows the time also while nothing else changes. Its methods may be called from
// any goroutine.
type Progress struct {
	out      io.Writer
	terminal bool
	interval time.Duration
	begun    time.Time

	mu     sync.Mutex
	status string
	dirty  bool // the terminal's cursor is in a status line
}

// NewProgress returns a Progress that writes to out.
func NewProgress(out io.Writer) *Progress {
	p := &Progress{out: out, interval: plainInterval, begun: time.Now()}
	if file, ok := out.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.terminal, p.interval = true, terminalInterval
		}
	}
	return p
}

// Start shows the status regularly, until stop is called.
func (p *Progress) Start() (stop func()) {
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(p.interval)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				p.show()
			}
		}
	})
	return func() {
		close(done)
		running.Wait()
		p.Update("")
		p.clear()
	}
}

// Elapsed returns the time since the Progress was made, in whole seconds.
func (p *Progress) Elapsed() time.Duration { return time.Since(p.begun).Round(time.Second) }

// WriteLine writes a line that stays, and forgets the status.
func (p *Progress) WriteLine(line string) {
	p.clear()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = ""
	_, _ = fmt.Fprintln(p.out, line)
}

// Update sets the status that is shown from the next time on.
func (p *Progress) Update(status string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = status
}

// show writes the status.
func (p *Progress) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status == "" {
		return
	}
	line := fmt.Sprintf("  %s: %s", p.Elapsed(), p.status)
	if !p.terminal {
		_, _ = fmt.Fprintln(p.out, line)
		return
	}
	p.dirty = true
	_, _ = fmt.Fprint(p.out, "\r\x1b[K"+line)
}

// clear removes the status line of a terminal.
func (p *Progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dirty {
		_, _ = fmt.Fprint(p.out, "\r\x1b[K")
	}
	p.dirty = false
}

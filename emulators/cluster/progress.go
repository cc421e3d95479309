//go:build unix

package cluster

import (
	"fmt"
	"io"
	"os"
	"time"
)

// How often a reporter updates. On a terminal it rewrites a line; elsewhere each update is another line.
const (
	terminalInterval = 200 * time.Millisecond
	plainInterval    = 20 * time.Second
)

// reporter shows progress. Only one goroutine may use it.
type reporter struct {
	out      io.Writer
	terminal bool
	interval time.Duration
	begun    time.Time
	updated  time.Time
	dirty    bool // the terminal's cursor is in a status line
}

func newReporter(out io.Writer) *reporter {
	now := time.Now()
	r := &reporter{out: out, interval: plainInterval, begun: now, updated: now}
	if file, ok := out.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			r.terminal, r.interval = true, terminalInterval
		}
	}
	return r
}

// elapsed returns the time since the reporter was made, in whole seconds.
func (r *reporter) elapsed() time.Duration { return time.Since(r.begun).Round(time.Second) }

// writeLine writes a line that stays.
func (r *reporter) writeLine(line string) {
	if r.dirty {
		line = "\r\x1b[K" + line
	}
	r.dirty = false
	_, _ = fmt.Fprintln(r.out, line)
}

// update writes the status, unless the last update was a moment ago.
func (r *reporter) update(status string) {
	if time.Since(r.updated) < r.interval {
		return
	}
	r.updated = time.Now()
	line := fmt.Sprintf("  %s: %s", r.elapsed(), status)
	if !r.terminal {
		_, _ = fmt.Fprintln(r.out, line)
		return
	}
	r.dirty = true
	_, _ = fmt.Fprint(r.out, "\r\x1b[K"+line)
}

// Package terminal shows progress: live where somebody watches, as plain lines where the output goes to a file. It
// knows nothing of what it shows.
package terminal

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// Terminal writes lines and a table that changes in place. Its methods may be called from any goroutine.
type Terminal struct {
	mu   sync.Mutex
	out  io.Writer
	live bool
	// rows is the table as it was last drawn; drawn is how many lines of it stand above the cursor.
	rows  []Row
	drawn int
	// partial is text that was written without the end of its line.
	partial []byte
}

// Row is one line of the table.
type Row struct {
	Name   string
	Status string
	Detail string
}

// New makes a terminal of a file.
func New(out *os.File) *Terminal {
	return &Terminal{out: out, live: term.IsTerminal(int(out.Fd()))}
}

// Line writes one line.
func (t *Terminal) Line(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drawn = 0 // what was drawn stays where it is
	fmt.Fprintf(t.out, format+"\n", args...)
}

// Write implements io.Writer for progress that comes in lines.
func (t *Terminal) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.partial = append(t.partial, b...)
	end := bytes.LastIndexByte(t.partial, '\n') + 1
	_, err := t.out.Write(t.partial[:end])
	t.partial = append([]byte(nil), t.partial[end:]...)
	return len(b), err
}

// Table shows rows: in place where the terminal is live, otherwise each row when it has changed.
func (t *Terminal) Table(rows []Row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.live {
		t.redraw(rows)
		return
	}
	for i, row := range rows {
		if i >= len(t.rows) || t.rows[i] != row {
			if row.Status != "pending" {
				fmt.Fprintln(t.out, row.line())
			}
		}
	}
	t.rows = append([]Row(nil), rows...)
}

func (t *Terminal) redraw(rows []Row) {
	var b strings.Builder
	if t.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", t.drawn)
	}
	for _, row := range rows {
		b.WriteString("\x1b[2K" + row.mark() + row.line() + "\n")
	}
	_, _ = io.WriteString(t.out, b.String()) // nobody watches any more
	t.drawn = len(rows)
}

func (r Row) line() string {
	return strings.TrimRight(fmt.Sprintf("  %-10s %-10s %s", r.Name, r.Status, r.Detail), " ")
}

// mark colours a row by its status.
func (r Row) mark() string {
	switch r.Status {
	case "succeeded":
		return "\x1b[32m✓\x1b[0m"
	case "running":
		return "\x1b[33m•\x1b[0m"
	case "failed":
		return "\x1b[31m✗\x1b[0m"
	case "skipped":
		return "\x1b[2m-\x1b[0m"
	default:
		return " "
	}
}

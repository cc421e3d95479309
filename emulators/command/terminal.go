package command

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// Terminal shows progress: lines, and a table that changes in place on a terminal, while a file gets the rows that
// change. Its methods may be called from any goroutine.
type Terminal struct {
	mu   sync.Mutex
	out  io.Writer
	live bool
	// rows is the table as last drawn; drawn is how many of its lines are directly above the cursor.
	rows  []Row
	drawn int
	// partial is written text whose line has not ended yet.
	partial []byte
}

// Row is one line of the table.
type Row struct {
	Name   string
	Status string
	Detail string
}

// NewTerminal returns a terminal that writes to a file.
func NewTerminal(out *os.File) *Terminal {
	return &Terminal{out: out, live: term.IsTerminal(int(out.Fd()))}
}

// Line writes one line.
func (t *Terminal) Line(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drawn = 0 // the drawn table stays above this line
	fmt.Fprintf(t.out, format+"\n", args...)
}

// Write implements io.Writer. It writes only complete lines.
func (t *Terminal) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.partial = append(t.partial, b...)
	end := bytes.LastIndexByte(t.partial, '\n') + 1
	_, err := t.out.Write(t.partial[:end])
	t.partial = append([]byte(nil), t.partial[end:]...)
	return len(b), err
}

// Table shows rows: it redraws the table on a terminal, and writes the changed rows to a file.
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
	_, _ = io.WriteString(t.out, b.String()) // the terminal is gone
	t.drawn = len(rows)
}

func (r Row) line() string {
	return strings.TrimRight(fmt.Sprintf("  %-10s %-10s %s", r.Name, r.Status, r.Detail), " ")
}

// mark returns a colored sign for the row's status.
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

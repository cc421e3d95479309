package containerlog

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const entries = `2026-01-01T00:00:01Z stdout F one
2026-01-01T00:00:02Z stderr F two
2026-01-01T00:00:03Z stdout P thr
2026-01-01T00:00:03Z stdout F ee
`

func TestRead_HonorsItsOptions(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "0.log")
	if err := os.WriteFile(path, []byte(entries), 0o600); err != nil {
		t.Fatal(err)
	}
	all := ReadOptions{Tail: -1, Limit: -1}
	for name, row := range map[string]struct {
		change func(*ReadOptions)
		want   string
	}{
		"all":        {func(*ReadOptions) {}, "one\ntwo\nthree\n"},
		"tail":       {func(o *ReadOptions) { o.Tail = 3 }, "two\nthree\n"},
		"no lines":   {func(o *ReadOptions) { o.Tail = 0 }, ""},
		"limit":      {func(o *ReadOptions) { o.Limit = 6 }, "one\ntw"},
		"since":      {func(o *ReadOptions) { o.Since = time.Date(2026, 1, 1, 0, 0, 2, 0, time.UTC) }, "two\nthree\n"},
		"stdout":     {func(o *ReadOptions) { o.Stderr = nil }, "one\nthree\n"},
		"timestamps": {func(o *ReadOptions) { o.Timestamps, o.Tail = true, 2 }, "2026-01-01T00:00:03Z three\n"},
	} {
		var got bytes.Buffer
		o := all
		o.Stdout, o.Stderr = &got, &got
		row.change(&o)
		if err := Read(t.Context(), path, o); err != nil || got.String() != row.want {
			t.Errorf("%s: %q, %v; want %q", name, got.String(), err, row.want)
		}
	}
}

// TestRead_FollowsAcrossRotations reads a log while it is written.
func TestRead_FollowsAcrossRotations(t *testing.T) {
	t.Parallel()
	path, done := filepath.Join(t.TempDir(), "0.log"), make(chan struct{})
	log, err := create(path, 200)
	if err != nil {
		t.Fatal(err)
	}
	stream := log.Stream("stdout")
	lines := &lineCounter{arrived: make(chan int, 100)}
	ended := make(chan error, 1)
	go func() {
		ended <- Read(t.Context(), path, ReadOptions{
			Follow: true, Done: done, Tail: -1, Limit: -1, Stdout: lines, Stderr: lines,
		})
	}()
	for range 10 { // each line is read before the next, so that no rotation can hide one
		_, _ = stream.Write([]byte(strings.Repeat("x", 60) + "\n"))
		<-lines.arrived
	}
	_, _ = stream.Write([]byte("last\n"))
	if err := stream.Close(); err != nil {
		t.Fatal(err)
	}
	close(done)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if lines.count() != 11 {
		t.Errorf("%d lines arrived, want 11", lines.count())
	}
}

type lineCounter struct {
	arrived chan int

	mu sync.Mutex
	n  int
}

// Write counts a line.
func (l *lineCounter) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	l.arrived <- l.n
	return len(line), nil
}

func (l *lineCounter) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

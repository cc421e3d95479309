package agentlogtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentlog"
	"agents.example/controlplane/shared/fault"
)

// Fixture is a source of logs under test.
type Fixture struct {
	Source agentlog.Source
	// Agent is placed on the source's cell, and has no pod.
	Agent agent.Agent
	// Start starts a pod for the agent, with one container. It replaces the agent's former pod.
	Start func(t *testing.T) Running
	// Keep has a worker look at the pod and keep the log of the container that ended last.
	Keep func(t *testing.T)
	// Timed is true if the cell gives every line a time.
	Timed bool
}

// Running is a pod that a test controls. *Pod implements it.
type Running interface {
	// Write writes lines to the log of the container, all at one time. The zero time is none.
	Write(at time.Time, texts ...string)
	// Restart ends the container and starts another one.
	Restart()
	// End ends the container, and no other one starts.
	End()
	// Rotate drops the lines that the container has written so far.
	Rotate()
}

// Run checks that a source keeps the promises of its port.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Fixture){
		"an agent without a pod has no log":                         withoutPod,
		"a container that has not restarted has no previous log":    withoutPrevious,
		"tail, since and previous choose lines":                     chooses,
		"logs of ended containers are kept and counted":             countsEnded,
		"the last five logs are kept, also without a pod's help":    keepsFive,
		"lines keep their time and text":                            lineParts,
		"long lines are cut at a whole character":                   longLines,
		"a stream that follows waits for lines and ends with Close": follows,
		"a stream that follows ends with the container":             endsWithContainer,
		"a stream ends with its context":                            endsWithContext,
		"every position resumes after its line":                     resumesEverywhere,
		"lines out of order are neither lost nor doubled":           resumesOutOfOrder,
		"a resumed stream has the lines of later containers":        resumesAcrossRestarts,
		"a resumed stream goes on after a rotation":                 resumesAfterRotation,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// begun is the time of the first line.
func begun() time.Time { return time.Date(2026, time.March, 2, 9, 30, 0, 987654321, time.UTC) }

// second is a time after begun.
func second(n float64) time.Time { return begun().Add(time.Duration(n * float64(time.Second))) }

// read opens a log and reads all of it.
func (f Fixture) read(t *testing.T, o agentlog.Options) []agentlog.Line {
	t.Helper()
	s, err := f.Source.Open(t.Context(), f.Agent, o)
	if err != nil {
		t.Fatalf("open %+v: %v", o, err)
	}
	var lines []agentlog.Line
	for {
		l, err := s.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("read %+v: %v", o, err)
		}
		lines = append(lines, l)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return lines
}

// want compares the messages of lines.
func want(t *testing.T, what string, lines []agentlog.Line, texts ...string) {
	t.Helper()
	var got []string
	for _, l := range lines {
		got = append(got, l.Message)
	}
	if !slices.Equal(got, texts) {
		t.Errorf("%s: got %q, want %q", what, got, texts)
	}
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if fault.Code(err) != code || !fault.Is(err, fault.Conflict) {
		t.Errorf("error %v, want the conflict %s", err, code)
	}
}

func withoutPod(t *testing.T, f Fixture) {
	for _, o := range []agentlog.Options{{}, {Previous: 1}, {Follow: true}} {
		_, err := f.Source.Open(t.Context(), f.Agent, o)
		wantCode(t, err, agentlog.CodeNotRunning)
	}
}

func withoutPrevious(t *testing.T, f Fixture) {
	f.Start(t)
	_, err := f.Source.Open(t.Context(), f.Agent, agentlog.Options{Previous: 1})
	wantCode(t, err, agentlog.CodeNoPrevious)
	want(t, "an empty log", f.read(t, agentlog.Options{Tail: 10}))
}

func chooses(t *testing.T, f Fixture) {
	p := f.Start(t)
	p.Write(second(0), "first run")
	p.Restart()
	for i := range 5 {
		p.Write(second(float64(10+i)), fmt.Sprint("line ", i))
	}
	want(t, "all", f.read(t, agentlog.Options{}), "line 0", "line 1", "line 2", "line 3", "line 4")
	want(t, "tail", f.read(t, agentlog.Options{Tail: 2}), "line 3", "line 4")
	want(t, "since a line's time", f.read(t, agentlog.Options{Since: second(13)}), "line 3", "line 4")
	want(t, "since a fraction of a second later", f.read(t, agentlog.Options{Since: second(13.000001)}), "line 4")
	want(t, "tail and since", f.read(t, agentlog.Options{Tail: 3, Since: second(13)}), "line 3", "line 4")
	want(t, "previous", f.read(t, agentlog.Options{Previous: 1}), "first run")
	p.End()
	want(t, "of a container that waits for its next run", f.read(t, agentlog.Options{Tail: 1}), "line 4")
	want(t, "previous of one that waits", f.read(t, agentlog.Options{Previous: 1, Tail: 1}), "line 4")
}

func lineParts(t *testing.T, f Fixture) {
	p := f.Start(t)
	texts := []string{"", " leading", "trailing ", "a\tb\r", "no\x00text", "not \xff UTF-8", `{"json": "<&>"}`}
	p.Write(second(0), texts...)
	if !f.Timed {
		texts = append(texts, "what a kubelet says")
		p.Write(time.Time{}, "what a kubelet says")
	}
	lines := f.read(t, agentlog.Options{})
	want(t, "lines", lines, texts...)
	for i, l := range lines {
		timed := l.Message != "what a kubelet says"
		if timed && !l.Time.Equal(begun()) || !timed && !l.Time.IsZero() || l.Cut || l.Output != agentlog.Combined {
			t.Errorf("line %d is %+v, want the time %s", i, l, begun())
		}
	}
}

func longLines(t *testing.T, f Fixture) {
	p := f.Start(t)
	fits := strings.Repeat("x", agentlog.MaxMessage)
	p.Write(second(0), fits, fits+"y", strings.Repeat("z", 1<<20), fits[1:]+"é", "short")
	lines := f.read(t, agentlog.Options{})
	want(t, "lines", lines, fits, fits, strings.Repeat("z", agentlog.MaxMessage), fits[1:], "short")
	for i, cut := range []bool{false, true, true, true, false} {
		if lines[i].Cut != cut {
			t.Errorf("line %d: cut = %t, want %t", i, lines[i].Cut, cut)
		}
	}
}

// next reads one line of a stream that follows.
func next(t *testing.T, s agentlog.Stream, text string) {
	t.Helper()
	if l, err := s.Next(); err != nil || l.Message != text {
		t.Fatalf("got %q, %v, want %q", l.Message, err, text)
	}
}

func (f Fixture) follow(t *testing.T, ctx context.Context, o agentlog.Options) agentlog.Stream {
	t.Helper()
	o.Follow = true
	s, err := f.Source.Open(ctx, f.Agent, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func follows(t *testing.T, f Fixture) {
	p := f.Start(t)
	p.Write(second(0), "a", "b")
	s := f.follow(t, t.Context(), agentlog.Options{Tail: 1})
	next(t, s, "b")
	written := make(chan struct{})
	go func() { defer close(written); p.Write(second(1), "c", "d") }()
	next(t, s, "c")
	next(t, s, "d")
	<-written
	go func() { _ = s.Close() }()
	if _, err := s.Next(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("Next of a closed stream: %v, want an error", err)
	}
}

func endsWithContainer(t *testing.T, f Fixture) {
	p := f.Start(t)
	p.Write(second(0), "a")
	s := f.follow(t, t.Context(), agentlog.Options{})
	next(t, s, "a")
	restarted := make(chan struct{})
	go func() { defer close(restarted); p.Restart() }()
	if l, err := s.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the container ended: %+v, %v, want io.EOF", l, err)
	}
	<-restarted
}

func endsWithContext(t *testing.T, f Fixture) {
	f.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	s := f.follow(t, ctx, agentlog.Options{})
	go cancel()
	if _, err := s.Next(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("Next after the context ended: %v, want an error", err)
	}
}

package agentlogtest

import (
	"fmt"
	"testing"
	"time"

	"agents.example/controlplane/shared/agentlog"
)

// resume reads the lines after a position, up to the last text.
func (f Fixture) resume(t *testing.T, at agentlog.Position, last string) []agentlog.Line {
	t.Helper()
	parsed, err := agentlog.ParsePosition(at.String())
	if err != nil {
		t.Fatal(err)
	}
	s := f.follow(t, t.Context(), agentlog.Options{
		After: parsed, Tail: 1, Since: second(1000), // which an event source repeats, and which must have no effect
	})
	defer func() { _ = s.Close() }()
	var lines []agentlog.Line
	for {
		l, err := s.Next()
		if err != nil {
			t.Fatalf("after %s and %d lines: %v", at, len(lines), err)
		}
		lines = append(lines, l)
		if l.Message == last {
			return lines
		}
	}
}

// checkPositions resumes after every line of a log, up to the line "last", and wants the lines after it.
func (f Fixture) checkPositions(t *testing.T, o agentlog.Options) {
	t.Helper()
	const last = "last"
	s := f.follow(t, t.Context(), o)
	var texts []string
	var positions []agentlog.Position
	for len(texts) == 0 || texts[len(texts)-1] != last {
		l, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		texts, positions = append(texts, l.Message), append(positions, s.Position())
	}
	_ = s.Close()
	for i, at := range positions[:len(positions)-1] {
		want(t, fmt.Sprintf("after line %d, %q", i, texts[i]), f.resume(t, at, last), texts[i+1:]...)
	}
}

func resumesEverywhere(t *testing.T, f Fixture) {
	p := f.Start(t)
	p.Write(second(0), "a")
	p.Write(second(1), "same", "same", "other", "same", "")
	p.Write(second(1.0000001), "same")
	p.Write(second(2), "x", "x", "x", "y", "z")
	p.Write(second(3), "last")
	f.checkPositions(t, agentlog.Options{})
	f.checkPositions(t, agentlog.Options{Tail: 2})
	f.checkPositions(t, agentlog.Options{Tail: 3}) // begins between lines of one time
	f.checkPositions(t, agentlog.Options{Tail: 4}) // begins between equal lines
	f.checkPositions(t, agentlog.Options{Since: second(1.5)})
}

// The container runtime takes the time of a line before it has written a line of the other stream.
func resumesOutOfOrder(t *testing.T, f Fixture) {
	p := f.Start(t)
	whole := begun().Truncate(time.Second)
	for i, offset := range []int{0, -2, 5, 3, 3, -1, 2, 4000, 10} {
		p.Write(whole.Add(time.Minute+time.Duration(offset)*time.Microsecond), fmt.Sprint("line ", i))
	}
	p.Write(whole.Add(2*time.Minute), "last")
	f.checkPositions(t, agentlog.Options{})
}

func resumesAcrossRestarts(t *testing.T, f Fixture) {
	p := f.Start(t)
	p.Write(second(10), "1a", "1b")
	s := f.follow(t, t.Context(), agentlog.Options{Tail: 1})
	next(t, s, "1b")
	first := s.Position()
	p.Write(second(11), "1c")
	p.Restart()
	p.Write(second(5), "2a", "2b") // its node's clock is behind
	want(t, "after one restart", f.resume(t, first, "2b"), "1c", "2a", "2b")
	p.Restart()
	p.Write(second(6), "3a")
	want(t, "after two restarts", f.resume(t, first, "3a"), "2a", "2b", "3a")
	f.Start(t).Write(second(4), "4a", "4b")
	want(t, "in another pod", f.resume(t, first, "4b"), "4a", "4b")
}

func resumesAfterRotation(t *testing.T, f Fixture) {
	p := f.Start(t)
	p.Write(second(10), "a", "b")
	s := f.follow(t, t.Context(), agentlog.Options{})
	next(t, s, "a")
	at := s.Position()
	p.Rotate()
	p.Write(second(10.00001), "c")
	p.Write(second(12), "d")
	want(t, "after the rotation", f.resume(t, at, "d"), "c", "d")
}

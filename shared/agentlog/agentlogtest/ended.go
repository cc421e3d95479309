package agentlogtest

import (
	"fmt"
	"testing"

	"agents.example/controlplane/shared/agentlog"
)

// previous reads the log of the container that ended as the nth before now, which must say how it ended.
func (f Fixture) previous(t *testing.T, n int, texts ...string) {
	t.Helper()
	lines := f.read(t, agentlog.Options{Previous: n})
	want(t, fmt.Sprint("previous log ", n), lines, texts...)
	for i, l := range lines {
		e := l.Ended
		switch {
		case i > 0 && e != nil:
			t.Errorf("line %d of the previous log %d repeats how the container ended", i, n)
		case i == 0 && (e == nil || e.ExitCode != 1 || e.Reason != "Error" || e.EndedAt.IsZero()):
			t.Errorf("the previous log %d says of its container %+v, want exit code 1 and the time", n, e)
		}
	}
}

func (f Fixture) noPrevious(t *testing.T, n int) {
	t.Helper()
	_, err := f.Source.Open(t.Context(), f.Agent, agentlog.Options{Previous: n})
	wantCode(t, err, agentlog.CodeNoPrevious)
}

func countsEnded(t *testing.T, f Fixture) {
	p := f.Start(t)
	for n, text := range []string{"one", "two"} {
		p.Write(second(float64(n)), text, text+" ends")
		p.Restart()
		f.Keep(t)
		f.Keep(t) // which changes nothing
	}
	p.Write(second(2), "three")
	f.previous(t, 1, "two", "two ends")
	f.previous(t, 2, "one", "one ends")
	f.noPrevious(t, 3)
	want(t, "the end of a kept log", f.read(t, agentlog.Options{Previous: 2, Tail: 1}), "one ends")
	want(t, "a kept log since a later time", f.read(t, agentlog.Options{Previous: 2, Since: second(1)}))
	for _, l := range f.read(t, agentlog.Options{}) {
		if l.Ended != nil {
			t.Errorf("the current log says of its container %+v, want nothing", l.Ended)
		}
	}
	f.Start(t) // in another pod, whose kubelet has none of these logs
	f.previous(t, 1, "two", "two ends")
	f.previous(t, 2, "one", "one ends")
	f.noPrevious(t, 3)
}

func keepsFive(t *testing.T, f Fixture) {
	p := f.Start(t)
	for n := range 7 {
		p.Write(second(float64(n)), fmt.Sprint("run ", n))
		p.Restart()
		f.Keep(t)
	}
	p = f.Start(t)
	for n := range agentlog.MaxKept {
		f.previous(t, n+1, fmt.Sprint("run ", 6-n))
	}
	p.Write(second(10), "later")
	p.Restart()
	f.previous(t, 1, "later") // not kept yet
	f.previous(t, 2, "run 6")
	f.Keep(t)
	f.previous(t, 1, "later")
	f.previous(t, 2, "run 6")
	f.previous(t, 5, "run 3")
}

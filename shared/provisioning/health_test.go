package provisioning_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	os.Exit(m.Run())
}

// observe looks at every world once and answers what went otherwise than it should.
func observe(mutant string) (defects []string) {
	rows := breaking()
	maps.Copy(rows, mending())
	maps.Copy(rows, missing())
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		r, s := rows[name], newScene()
		s.mutant = mutant
		r.prepare(s)
		err := s.observer().CheckHealth(context.Background())
		a, there := s.agents[own]
		if !there {
			a = &agent.Agent{}
		}
		code := ""
		if a.Failure != nil {
			code = a.Failure.Code
		}
		if a.Status != r.status || code != r.code || s.called(own) != r.calls || (err != nil) != r.failed {
			defects = append(defects,
				fmt.Sprintf("%s: %s %q after %q (%v), want %s %q after %q", name, a.Status, code, s.called(own), err,
					r.status, r.code, r.calls))
			continue
		}
		if r.also != nil {
			if wrong := r.also(*a); wrong != "" {
				defects = append(defects, name+": "+wrong)
			}
		}
		if o := s.agents[other]; o.Status != agent.Running || !o.Converged() ||
			strings.Contains(s.called(other), "record") {
			defects = append(defects,
				fmt.Sprintf("%s: the other agent became %s after %q", name, o.Status, s.called(other)))
		}
	}
	return defects
}

func TestObserve(t *testing.T) {
	t.Parallel()
	for _, defect := range observe("") {
		t.Error(defect)
	}
}

// TestTheWorldsFindPlantedDefects shows that the worlds would find what they are there to find.
func TestTheWorldsFindPlantedDefects(t *testing.T) {
	t.Parallel()
	for _, mutant := range []string{
		"unguarded write", "partial list", "any pod is current", "unknown is absent",
		"a gateway that always answers",
	} {
		if len(observe(mutant)) == 0 {
			t.Errorf("the defect %q was not found", mutant)
		}
	}
}

// TestManyAreMissing: that many at once are rather a mistake than a loss, and are attended to a few at a time, all in
// the end.
func TestManyAreMissing(t *testing.T) {
	t.Parallel()
	s := newScene()
	const lost = 30
	for range lost {
		a := runningAgent(uuid.NewString())
		s.add(a)
		s.presence[a.ID] = provisioning.Existence{Namespace: true}
	}
	o := s.observer()
	for runs := 1; ; runs++ {
		before := count(s, "record")
		if err := o.CheckHealth(t.Context()); err != nil {
			t.Fatal(err)
		}
		attended := count(s, "record") - before
		if attended > 5 || runs > 2*lost {
			t.Fatalf("run %d attended to %d agents", runs, attended)
		}
		minute := time.Duration(runs) * time.Minute
		o.Now = func() time.Time { return observedAt.Add(minute) }
		if count(s, "record") == lost {
			break
		}
	}
	if n := count(s, "nudge"); n != lost {
		t.Errorf("%d nudges, want %d", n, lost)
	}
}

func count(s *scene, name string) (n int) {
	for _, c := range s.calls {
		if strings.HasPrefix(c, name+" ") {
			n++
		}
	}
	return n
}

// TestTurns: of a fleet that is larger than what a run reads, every agent has its turn, and none waits for much longer
// than the others.
func TestTurns(t *testing.T) {
	t.Parallel()
	const fleet, batch = 1000, 200
	s := newScene()
	clear(s.agents)
	for range fleet {
		s.add(failedAt(uuid.NewString(), ""))
	}
	for id := range s.agents { // all have mended, but don't answer: who is probed has had a turn
		s.pods["cell-1"] = append(s.pods["cell-1"], readyPod(id, time.Hour))
	}
	s.down["probe"] = true
	o, last := s.observer(), map[string]int{}
	for minute := range 60 {
		o.Now = func() time.Time { return observedAt.Add(time.Duration(minute) * time.Minute) }
		s.calls = nil
		if err := o.CheckHealth(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := count(s, "probe"); n != batch || s.limit != batch {
			t.Fatalf("minute %d: %d had a turn, and %d were asked for; want %d", minute, n, s.limit, batch)
		}
		for _, c := range s.calls {
			last[strings.TrimPrefix(c, "probe ")] = minute
		}
		for id := range s.agents {
			if waited := minute - last[id]; waited > 3*fleet/batch {
				t.Fatalf("an agent waits for %d minutes", waited)
			}
		}
	}
}

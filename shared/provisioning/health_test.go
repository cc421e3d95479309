package provisioning_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/testtier"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // the tests leave much garbage and little else
	testtier.SilenceLogs()
	os.Exit(m.Run())
}

// healthRows returns all rows by name.
func healthRows() map[string]healthRow {
	rows := rowsOfBrokenPods()
	maps.Copy(rows, rowsOfRecoveredPods())
	maps.Copy(rows, rowsOfMissingPods())
	maps.Copy(rows, rowsOfMovedPods())
	return rows
}

// checkRow runs one health check and lists what differs from the row.
func checkRow(r healthRow, mutant string) (defects []string) {
	s := newHealthFixture()
	s.mutant, s.concurrently = mutant, r.concurrently
	r.given(s)
	err := s.controller().CheckHealth(context.Background())
	a := s.find(own)
	code := ""
	if a.Failure != nil {
		code = a.Failure.Code
	}
	differ := func(what string, got, want any) {
		if got != want {
			defects = append(defects, fmt.Sprintf("%s = %v, want %v", what, got, want))
		}
	}
	differ("status", a.Status, r.wantStatus)
	differ("failure", code, r.wantFailure)
	differ("calls", s.callsAbout(own), r.wantCalls)
	differ(fmt.Sprintf("CheckHealth fails (%v)", err), err != nil, r.wantError)
	if len(defects) == 0 && r.wantAgent != nil {
		differ("agent", r.wantAgent(a), "")
	}
	o := s.find(other)
	differ("status of the other agent", o.Status, agent.Running)
	differ("convergence of the other agent", o.Converged(), true)
	differ("updates of the other agent", strings.Contains(s.callsAbout(other), "update"), false)
	return defects
}

func TestCheckHealth_MovesAgentsWithTheirPods(t *testing.T) {
	t.Parallel()
	for name, row := range healthRows() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, defect := range checkRow(row, "") {
				t.Error(defect)
			}
		})
	}
}

// TestHealthRows_FindPlantedDefects proves that the rows detect the defects that they exist for.
func TestHealthRows_FindPlantedDefects(t *testing.T) {
	t.Parallel()
	for _, mutant := range []string{
		"unguarded write", "partial list", "any pod is current", "unknown is absent", "probe always succeeds",
	} {
		found := 0
		for _, row := range healthRows() {
			found += len(checkRow(row, mutant))
		}
		if found == 0 {
			t.Errorf("no row finds the planted defect %q", mutant)
		}
	}
}

// TestCheckHealth_RepairsFewAgentsPerRun makes many agents lose their pods, which is probably a misconfiguration: each
// run repairs at most five, and the runs together repair all.
func TestCheckHealth_RepairsFewAgentsPerRun(t *testing.T) {
	t.Parallel()
	s := newHealthFixture()
	const lost = 30
	for range lost {
		a := runningAgent(uuid.NewString())
		s.add(a)
		s.existence[a.ID] = provisioning.Existence{Namespace: true}
	}
	o := s.controller()
	for runs := 1; ; runs++ {
		before := count(s, "update")
		must(t, o.CheckHealth(t.Context()))
		if repaired := count(s, "update") - before; repaired > 5 {
			t.Fatalf("run %d repaired %d agents, want at most 5", runs, repaired)
		}
		if runs > 2*lost {
			t.Fatalf("after %d runs, %d of %d agents are repaired", runs, count(s, "update"), lost)
		}
		minute := time.Duration(runs) * time.Minute
		o.Now = func() time.Time { return checkedAt.Add(minute) }
		if count(s, "update") == lost {
			break
		}
	}
	if n := count(s, "nudge"); n != lost {
		t.Errorf("nudges = %d, want %d", n, lost)
	}
}

func count(s *healthFixture, name string) (n int) {
	for _, c := range s.calls {
		if strings.HasPrefix(c, name+" ") {
			n++
		}
	}
	return n
}

// TestCheckHealth_ReadsEveryAgentInTime has more agents than a run reads: none waits much longer than the others.
func TestCheckHealth_ReadsEveryAgentInTime(t *testing.T) {
	t.Parallel()
	const agents, batch = 1000, 200
	s := newHealthFixture()
	s.remove(own)
	s.remove(other)
	for range agents {
		id := uuid.NewString()
		s.add(failedAt(id, ""))
		// All have a ready pod that does not answer, so the probe shows which agents were read.
		s.pods["cell-1"] = append(s.pods["cell-1"], readyPod(id, time.Hour))
	}
	s.failing["probe"] = true
	o, last := s.controller(), map[string]int{}
	for minute := range 60 {
		o.Now = func() time.Time { return checkedAt.Add(time.Duration(minute) * time.Minute) }
		s.calls = nil
		must(t, o.CheckHealth(t.Context()))
		if n := count(s, "probe"); n != batch {
			t.Fatalf("minute %d: probed %d agents, want %d", minute, n, batch)
		}
		if s.limit != batch {
			t.Fatalf("minute %d: listed at most %d agents, want %d", minute, s.limit, batch)
		}
		for _, c := range s.calls {
			last[strings.TrimPrefix(c, "probe ")] = minute
		}
		for _, a := range s.database.Agents() {
			if waited := minute - last[a.ID]; waited > 3*agents/batch {
				t.Fatalf("an agent waited %d minutes, want at most %d", waited, 3*agents/batch)
			}
		}
	}
}

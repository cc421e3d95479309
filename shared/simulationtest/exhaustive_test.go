package simulationtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/testtier"
)

// scope is a client's action, all of whose schedules with few deviations from the plainest one are run.
type scope struct {
	start  agent.Status
	action string
	// workers is how many messages a nudge becomes, and how many workers run concurrently.
	workers int
	// deviations is how many decisions differ, and kinds what they are about.
	deviations int
	kinds      Kind
	// least is how many schedules there are at least.
	least int
}

// String implements fmt.Stringer.
func (s scope) String() string {
	kinds := map[Kind]string{Order: "switches", Outcome: "faults", Order | Outcome: "faults or switches"}[s.kinds]
	start := cmp.Or(string(s.start), "no")
	return fmt.Sprintf("%s, %s agent, %d workers, at most %d %s", s.action, start, s.workers, s.deviations, kinds)
}

// scopes lists what is enumerated: for each action, one worker with faults at each step, and two workers with context
// switches at each step. Two deviations can be two faults, two switches, or a fault and a switch.
func scopes(deviations int) (all []scope) {
	actions := map[agent.Status][]string{
		"":            {"create", "create with secrets"},
		agent.Running: {"put", "remove", "rotate", "patch", "resize", "stop", "pause", "restart", "migrate", "delete"},
		agent.Stopped: {"start", "put", "delete"}, agent.Paused: {"resume"},
	}
	least := 8
	if deviations > 1 {
		least = 20
	}
	for _, start := range slices.Sorted(maps.Keys(actions)) {
		for _, action := range actions[start] {
			add := func(workers int, kinds Kind, least int) {
				all = append(all, scope{
					start: start, action: action, workers: workers, deviations: deviations, kinds: kinds, least: least,
				})
			}
			add(1, Outcome, 3*least)
			add(2, Order, least)
			if deviations > 1 && slices.Contains([]string{"create with secrets", "put", "stop", "delete"}, action) {
				add(2, Order|Outcome, 40*least)
			}
		}
	}
	return all
}

// enumeration runs all schedules of a scope whose number has a remainder.
type enumeration struct {
	scope
	runner     Runner
	plant      Plant
	part, next int
	keep       bool
	sums       map[uint64]struct{}
	// bad is the first schedule that violates a promise.
	bad        Result
	deviations []Deviation
	err        error
}

// run runs one schedule and returns its decisions.
func (e *enumeration) run(deviations []Deviation) []Decision {
	s := NewScheduler(1)
	s.Keep, s.Plan = e.keep, &Plan{Deviations: deviations}
	s.record("scope", e.action+" "+string(e.start), Verdict(fmt.Sprint(e.workers)))
	result, err := e.runner.RunSetup(s, Setup{
		Start: e.start, Scripts: [][]string{{e.action}}, Workers: e.workers, Twice: e.workers > 1, Steps: 1_000,
	}, e.plant)
	e.sums[result.Sum] = struct{}{}
	if err != nil || result.Violation != "" {
		e.bad, e.deviations, e.err = result, slices.Clone(deviations), err
	}
	return s.Plan.Made
}

// deviate runs all schedules that deviate further than a plan.
func (e *enumeration) deviate(from []Deviation) {
	made := e.run(from)
	first := 0
	if len(from) > 0 {
		first = from[len(from)-1].Decision + 1
	}
	if len(from) == e.scope.deviations {
		return
	}
	for i, d := range made[min(first, len(made)):] {
		for choice := 1; choice < d.Possibilities && d.Kind&e.kinds != 0; choice++ {
			if e.bad.Violation != "" || e.err != nil {
				return
			}
			if len(from) == 0 {
				if e.next++; e.next%workers != e.part {
					continue
				}
			}
			e.deviate(append(slices.Clip(from), Deviation{first + i, choice}))
		}
	}
}

// enumerate runs all schedules of scopes.
func enumerate(t *testing.T, scopes []scope, plant Plant) (counts []int, sums map[uint64]struct{}, bad *enumeration) {
	t.Helper()
	counts, sums = make([]int, len(scopes)), map[uint64]struct{}{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for part := range workers {
		all.Go(func() {
			synctest.Test(t, func(t *testing.T) {
				e := enumeration{plant: plant, part: part}
				for i, s := range scopes {
					e.scope, e.sums, e.next = s, map[uint64]struct{}{}, 0
					e.deviate(nil)
					mu.Lock()
					before := len(sums)
					maps.Copy(sums, e.sums)
					counts[i] += len(sums) - before // both parts run the plainest schedule
					mu.Unlock()
					if e.bad.Violation != "" || e.err != nil {
						mu.Lock()
						bad = &e
						mu.Unlock()
						return
					}
				}
			})
		})
	}
	all.Wait()
	return counts, sums, bad
}

func TestSimulation_HoldsItsPromisesUnderEverySmallSchedule(t *testing.T) {
	t.Parallel()
	if *replay != 0 || *schedules > 0 {
		t.Skip("only random schedules")
	}
	if testtier.RaceDetector {
		t.Skip("random schedules run the same code")
	}
	deviations, promised := 1, 1_100
	if testtier.IsFull(t) {
		deviations, promised = 2, 172_000
	}
	began := time.Now()
	all := scopes(deviations)
	counts, sums, bad := enumerate(t, all, Plant{})
	if bad != nil {
		synctest.Test(t, func(t *testing.T) {
			e := enumeration{scope: bad.scope, keep: true, sums: map[uint64]struct{}{}}
			e.run(bad.deviations)
			t.Fatalf("%s: %s (%v)\n%s", e.scope, bad.bad.Violation, bad.err, e.bad.Trace)
		})
	}
	for i, s := range all {
		t.Logf("%6d schedules: %s", counts[i], s)
		if counts[i] < s.least {
			t.Errorf("%d schedules of %s, want at least %d", counts[i], s, s.least)
		}
	}
	if len(sums) < promised {
		t.Errorf("%d distinct schedules, want at least %d", len(sums), promised)
	}
	t.Logf("%d distinct schedules in %v", len(sums), time.Since(began).Round(time.Millisecond))
}

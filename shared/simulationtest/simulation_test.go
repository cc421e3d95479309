package simulationtest

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/testtier"
)

var (
	replay    = flag.Uint64("simulation.seed", 0, "replay the schedule with this seed")
	schedules = flag.Int("simulation.schedules", 0, "run this many schedules instead of the usual number")
	planted   = flag.String("simulation.defect", "", "replay the seed with this planted defect")
)

func TestMain(m *testing.M) {
	testtier.SilenceLogs()
	debug.SetGCPercent(1600) // a schedule leaves much garbage and little else
	os.Exit(m.Run())
}

// workers is how many goroutines run schedules: one for each core of the build machine.
const workers = 2

// explore runs the schedules of the seeds from first on, until one violates a promise. It returns the sums of those
// that did not, and the seed and the result of the first that did.
func explore(t *testing.T, first uint64, n int, plant Plant) (sums map[uint64]struct{}, seed uint64, bad Result) {
	t.Helper()
	sums = map[uint64]struct{}{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for part := range workers {
		all.Go(func() {
			synctest.Test(t, func(t *testing.T) {
				r := Runner{}
				mine := map[uint64]struct{}{}
				for i := part; i < n; i += workers {
					result, err := r.Run(first+uint64(i), plant, false)
					if err != nil {
						t.Error(err)
						return
					}
					mine[result.Sum] = struct{}{}
					if result.Violation == "" && i%64 != 0 {
						continue
					}
					mu.Lock()
					found := bad.Violation != ""
					if !found && result.Violation != "" {
						seed, bad = first+uint64(i), result
					}
					mu.Unlock()
					if found || result.Violation != "" {
						break
					}
				}
				mu.Lock()
				defer mu.Unlock()
				for sum := range mine {
					sums[sum] = struct{}{}
				}
			})
		})
	}
	all.Wait()
	return sums, seed, bad
}

// trace replays a schedule and returns it as a table.
func trace(t *testing.T, seed uint64, plant Plant) (result Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := Runner{}
		var err error
		if result, err = r.Run(seed, plant, true); err != nil {
			t.Error(err)
		}
	})
	return result
}

func TestSimulation_HoldsItsPromisesUnderEverySchedule(t *testing.T) {
	t.Parallel()
	if *replay != 0 {
		var plant Plant
		for _, d := range defects() {
			if d.name == *planted {
				plant = d.plant
			}
		}
		result := trace(t, *replay, plant)
		t.Logf("%s\nviolation: %s", result.Trace, result.Violation)
		return
	}
	// In the full tier, with the small schedules, more than 200,000 distinct ones.
	n := testtier.Count(t, 1_850, 1_850, 29_000)
	if testtier.RaceDetector {
		n = 500
	}
	if *schedules > 0 {
		n = *schedules
	}
	began := time.Now()
	sums, seed, bad := explore(t, 1, n, Plant{})
	if bad.Violation != "" {
		t.Fatalf("seed %d: %s\nafter %d schedules; replay it with -simulation.seed=%d\n%s", seed, bad.Violation,
			len(sums), seed, trace(t, seed, Plant{}).Trace)
	}
	if promised := n * 97 / 100; len(sums) < promised {
		t.Errorf("%d distinct schedules, want at least %d", len(sums), promised)
	}
	t.Log(fmt.Sprint(len(sums), " distinct schedules in ", time.Since(began).Round(time.Millisecond)))
}

// TestSimulation_RepeatsTheScheduleOfASeed lets a failure be looked at again.
func TestSimulation_RepeatsTheScheduleOfASeed(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		focus func(*Scheduler, *Setup)
		seeds int
	}{
		"all":       {seeds: testtier.Count(t, 10, 10, 300)},
		"webhooks":  {focus: arrangeWebhooks, seeds: testtier.Count(t, 3, 3, 100)},
		"schedules": {focus: arrangeSchedules, seeds: testtier.Count(t, 3, 3, 100)},
		"snapshots": {focus: arrangeSnapshots, seeds: testtier.Count(t, 3, 3, 100)},
		"exports":   {focus: arrangeExports, seeds: testtier.Count(t, 3, 3, 100)},
		"moves":     {focus: arrangeMoves, seeds: testtier.Count(t, 3, 3, 100)},
		"egress":    {focus: arrangeEgress, seeds: testtier.Count(t, 3, 3, 100)},
		"releases":  {focus: arrangeRelease, seeds: testtier.Count(t, 20, 30, 300)}, // with many concurrent calls
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sums [2][]uint64
			for i := range sums {
				synctest.Test(t, func(t *testing.T) {
					r := Runner{}
					for seed := range row.seeds {
						result, err := r.Run(uint64(seed), Plant{Focus: row.focus}, false)
						if err != nil {
							t.Error(err)
						}
						sums[i] = append(sums[i], result.Sum)
					}
				})
			}
			for seed, sum := range sums[0] {
				if sums[1][seed] != sum {
					t.Errorf("seed %d has two schedules", seed)
				}
			}
		})
	}
}

// TestSimulation_DeliversEventsUnderEverySchedule runs schedules of webhooks only, of which the others have few.
func TestSimulation_DeliversEventsUnderEverySchedule(t *testing.T) {
	t.Parallel()
	exploreFocused(t, 200, 1_000, arrangeWebhooks) // its planted defects need at most 47
}

// TestSimulation_CallsEachDueTimeOnceUnderEverySchedule runs schedules of agents with schedules only.
func TestSimulation_CallsEachDueTimeOnceUnderEverySchedule(t *testing.T) {
	t.Parallel()
	exploreFocused(t, 200, 2_700, arrangeSchedules) // its planted defects need at most 540
}

// TestSimulation_KeepsAndRestoresDataUnderEverySchedule runs schedules of agents with snapshots only.
func TestSimulation_KeepsAndRestoresDataUnderEverySchedule(t *testing.T) {
	t.Parallel()
	exploreFocused(t, 350, 4_500, arrangeSnapshots)
}

// TestSimulation_LeavesNothingOfExportsUnderEverySchedule runs schedules with exports only.
func TestSimulation_LeavesNothingOfExportsUnderEverySchedule(t *testing.T) {
	t.Parallel()
	exploreFocused(t, 350, 4_500, arrangeExports) // its planted defect needs 274
}

// TestSimulation_MovesAgentsUnderEverySchedule runs schedules with moves between two cells only.
func TestSimulation_MovesAgentsUnderEverySchedule(t *testing.T) {
	t.Parallel()
	exploreFocused(t, 600, 4_500, arrangeMoves) // a planted defect needs 441
}

// TestSimulation_EnforcesEgressUnderEverySchedule runs schedules in which clients change what the agent may reach only.
func TestSimulation_EnforcesEgressUnderEverySchedule(t *testing.T) {
	t.Parallel()
	exploreFocused(t, 350, 4_500, arrangeEgress)
}

// TestSimulation_ReleasesHoldTheirPromisesUnderEverySchedule runs schedules with a release only.
func TestSimulation_ReleasesHoldTheirPromisesUnderEverySchedule(t *testing.T) {
	t.Parallel()
	exploreFocused(t, 250, 4_000, arrangeRelease)
}

// exploreFocused runs schedules with a setup of which the others have few: as many as usual in the default tier, and as
// full in the full one.
func exploreFocused(t *testing.T, usual, full int, focus func(*Scheduler, *Setup)) {
	t.Helper()
	if *replay != 0 {
		t.Skip("only one schedule")
	}
	n := testtier.Count(t, 200, usual, full)
	if testtier.RaceDetector {
		n = 50
	}
	focused := Plant{Focus: focus}
	sums, seed, bad := explore(t, 1, n, focused)
	if bad.Violation != "" {
		t.Fatalf("seed %d: %s\nafter %d schedules\n%s", seed, bad.Violation, len(sums), trace(t, seed, focused).Trace)
	}
	if promised := n * 97 / 100; len(sums) < promised {
		t.Errorf("%d distinct schedules, want at least %d", len(sums), promised)
	}
}

var survey = flag.Int("simulation.survey", 0, "count the violations of so many schedules by promise")

func TestSurvey(t *testing.T) {
	if *survey == 0 {
		t.Skip("only with -simulation.survey")
	}
	synctest.Test(t, func(t *testing.T) {
		r := Runner{}
		counts, examples, steps := map[string]int{}, map[string]string{}, 0
		for seed := range uint64(*survey) {
			result, err := r.Run(seed+1, Plant{}, false)
			if err != nil {
				t.Fatal(err)
			}
			steps += result.Steps
			if promise, text, found := strings.Cut(result.Violation, ": "); found {
				counts[promise]++
				if examples[promise] == "" {
					examples[promise] = fmt.Sprint("seed ", seed+1, ": ", text[:min(len(text), 300)])
				}
			}
		}
		for promise, n := range counts {
			t.Logf("%6d %s: %s", n, promise, examples[promise])
		}
		t.Logf("%d steps a schedule", steps/(*survey))
	})
}

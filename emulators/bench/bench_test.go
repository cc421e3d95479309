package bench

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"agents.example/controlplane/emulators/gcloud/gcloudtest"
	"agents.example/controlplane/shared/testtier"
)

func TestMain(m *testing.M) {
	testtier.SilenceLogs()
	debug.SetGCPercent(400) // the test leaves much garbage and little else
	// A library of the clients starts this one when it is loaded, and never ends it.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// TestRun_MeetsEveryTarget counts everything, and measures no times, because other tests use the machine, too. What
// programs allocate and weigh is for the full tier, and so is a month of 1,000 agents. With -short it leaves out the
// cluster.
func TestRun_MeetsEveryTarget(t *testing.T) {
	t.Parallel()
	choice, err := gcloudtest.Choice()
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Dir: t.TempDir(), Emulators: choice, AttachFirestore: os.Getenv("FIRESTORE_EMULATOR_HOST"),
		Agents:     testtier.Count(t, 500, 500, 1000),
		NoPrograms: !testtier.IsFull(t), NoCluster: testing.Short(),
	}
	var want []string
	for _, m := range measures() {
		if !m.long && !m.timed && (!m.programs || !o.NoPrograms) && (!m.cluster || !o.NoCluster) {
			want = append(want, m.rows...)
		}
	}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var counted []string
	for _, row := range r.Rows {
		counted = append(counted, row.ID)
		if !row.Timed && !row.OK() {
			t.Errorf("%s, %s: %v %s, want at most %v times %v (%s)", row.ID, row.What, row.Ours, row.Unit, row.Most,
				row.Limit, row.Note)
		}
		if row.ID == "P10" && row.Unit == "Monitoring calls" &&
			(row.Ours != 7 || row.Note != fmt.Sprintf("7 for %d agents", o.Agents/100)) {
			t.Errorf("%v Monitoring calls for %d agents (%s), want 7 for any number of agents", row.Ours, o.Agents,
				row.Note)
		}
	}
	for _, id := range want {
		if !slices.Contains(counted, id) {
			t.Errorf("the report has no row %s", id)
		}
	}
	r.Rows = slices.DeleteFunc(r.Rows, func(r Row) bool { return r.Timed }) // P3 and P19 have both
	var b bytes.Buffer
	if err := r.Print(&b); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); strings.Contains(text, "MISSED") ||
		!strings.Contains(text, "| CollectMetrics, collecting | 8,640 |") {
		t.Errorf("the printed report misses a target or the collector's cycles:\n%s", text)
	}
}

func TestUSD_AddsUpThePriceList(t *testing.T) {
	t.Parallel()
	// $0.40 a million requests, $0.03 and $0.09 a hundred thousand documents, $0.50 a million series, $0.10 a job.
	got, err := usd(Tally{
		Requests: 1_000_000, Reads: 2_000_000, Writes: 100_000, Deletes: 100_000, Series: 3_000_000,
		MonitoringCalls: 9, Calls: 9,
	}, 2)
	if want := 0.40 + 0.60 + 0.09 + 0.01 + 1.50 + 0.20; err != nil || math.Abs(got-want) > 1e-9 {
		t.Errorf("usd = %v, %v; want %v", got, err, want)
	}
	if row := perMillion("read", Tally{Requests: 1, Reads: 5}).row(); row.OK() {
		t.Errorf("the row of five reads meets the target of one: %+v", row)
	}
}

func TestMonth_CountsRunsAndFormatsThem(t *testing.T) {
	t.Parallel()
	for schedule, want := range map[string]int64{
		"* * * * *": 43_200, "17 * * * *": 720, "41 3 * * *": 30,
		"*/5 * * * *": 8640, "*/7 * * * *": 0, "0 0 1 * *": 0, "x": 0,
	} {
		if got, err := runsOfMonth(schedule); got != want || (err == nil) != (want > 0) {
			t.Errorf("runsOfMonth(%q) = %d, %v; want %d", schedule, got, err, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 8640: "8,640", 1234567: "1,234,567"} {
		if got := withThousands(n); got != want {
			t.Errorf("withThousands(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestSelected_LeavesOutLongMeasuresUnlessTheyAreNamed(t *testing.T) {
	t.Parallel()
	names := func(chosen []measure) (names []string) {
		for _, m := range chosen {
			names = append(names, m.name)
		}
		return names
	}
	usual, err := selected(nil)
	if err != nil || len(usual) == 0 || slices.Contains(names(usual), "first start") {
		t.Errorf("selected(nil) = %q, %v; want the measures that do not take long", names(usual), err)
	}
	one, err := selected([]string{"P14"})
	if err != nil || !slices.Equal(names(one), []string{
		"packages of the first start", "start of a cluster", "first start", "idle local cloud",
	}) {
		t.Errorf("selected(P14) = %q, %v; want all about the first start", names(one), err)
	}
	if _, err := selected([]string{"P1", "P99"}); err == nil || !strings.Contains(err.Error(), "P99") {
		t.Errorf("selected(P99): %v, want an error that names the row", err)
	}
}

// TestMeasures_AreInTheReadme compares the rows with the table that says what each measures.
func TestMeasures_AreInTheReadme(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(b), "| row | what it measures |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var got, want []string
	for line := range strings.Lines(table) {
		ids, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		got = append(got, strings.Split(ids, ", ")...)
	}
	for _, m := range measures() {
		want = append(want, m.rows...)
	}
	slices.Sort(got)
	slices.Sort(want)
	if want = slices.Compact(want); !slices.Equal(got, want) {
		t.Errorf("the table of emulators/README.md has the rows\n%v\nbut there are\n%v", got, want)
	}
}

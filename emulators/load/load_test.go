package load

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agents.example/controlplane/emulators/gcloud"
	"agents.example/controlplane/shared/testtier"
)

func TestMain(m *testing.M) {
	testtier.SilenceLogs()
	// A library of the clients starts this one when it is loaded, and never ends it.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// TestRun_GoodClientsAreServedDuringAttacks runs a short form of the command: no request of a good client fails. It
// does not judge times, because other tests use the machine, too.
func TestRun_GoodClientsAreServedDuringAttacks(t *testing.T) {
	t.Parallel()
	testtier.RequireFull(t, "attacks the processes of a cloud for seconds")
	r, err := Run(t.Context(), Options{
		Dir: t.TempDir(), Emulators: gcloud.Embedded, Rounds: 1, Lead: 2 * time.Second, Phase: 3 * time.Second,
		Attacks: regexp.MustCompile("^(slow bodies|bad tokens)$"),
	})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.Print(&b); err != nil {
		t.Fatal(err)
	}
	for _, row := range r.Rows {
		if row.Without.Requests == 0 || row.With.Requests == 0 || !strings.Contains(row.Hostile, "in flight; ") {
			t.Errorf("%s was not measured: %+v", row.Attack, row)
		}
		if row.Without.Failures > 0 || row.With.Failures > 0 {
			t.Errorf("%s: %d requests of good clients failed without it and %d with it, want none", row.Attack,
				row.Without.Failures, row.With.Failures)
		}
	}
	if len(r.Rows) != 2 || t.Failed() {
		t.Errorf("%d rows, want 2:\n%s", len(r.Rows), b.String())
	}
}

func TestRow_OK(t *testing.T) {
	t.Parallel()
	quiet := Stats{Requests: 1000, P99: 100 * time.Millisecond}
	for name, c := range map[string]struct {
		with, without Stats
		control, want bool
	}{
		"no effect":    {without: quiet, with: quiet, want: true},
		"a bit slower": {without: quiet, with: Stats{Requests: 1000, P99: 150 * time.Millisecond}, want: true},
		"too slow":     {without: quiet, with: Stats{Requests: 1000, P99: 151 * time.Millisecond}},
		"one failure":  {without: quiet, with: Stats{Requests: 1000, Failures: 1, P99: quiet.P99}},
		"equal rates": {
			without: Stats{Requests: 10, Failures: 1}, with: Stats{Requests: 20, Failures: 2}, want: true,
		},
		"without one":   {without: Stats{Requests: 10, Failures: 1}, with: quiet, control: true, want: true},
		"noisy control": {without: quiet, with: Stats{Requests: 1000, Failures: 5}, control: true, want: true},
	} {
		row := Row{Attack: name, Control: c.control, Without: c.without, With: c.with}
		if got := row.OK(); got != c.want {
			t.Errorf("%s: OK = %t, want %t", name, got, c.want)
		}
		if got := (Report{Rows: []Row{row}}).OK(); got != c.want {
			t.Errorf("%s: OK of the report = %t, want %t", name, got, c.want)
		}
	}
	if (Report{}).OK() {
		t.Error("OK of a report without rows = true, want false")
	}
}

// TestReport_NamesWhatAnAttackSlows prints the slowest kinds of requests only where an attack has an effect.
func TestReport_NamesWhatAnAttackSlows(t *testing.T) {
	t.Parallel()
	quick := Stats{Requests: 10, P99: time.Millisecond, Kinds: map[string]time.Duration{"get": time.Millisecond}}
	slow := Stats{
		Requests: 10, Failures: 1, P99: time.Second, Reasons: map[string]int{"get 503": 1},
		Kinds: map[string]time.Duration{"get": time.Second, "list": time.Millisecond},
	}
	var b bytes.Buffer
	r := Report{Rows: []Row{
		{Attack: "harmless", Without: quick, With: quick}, {Attack: "bad", Without: quick, With: slow},
	}}
	if err := r.Print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"EFFECT", "bad, failures with: get 503: 1\n",
		"bad, slowest with (p99): get 1s (without 1ms), list 1ms (without 0s)\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report does not say %q:\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "harmless, slowest") {
		t.Errorf("the report names what an attack without effect slows:\n%s", b.String())
	}
}

func TestStats_SeparatesStartsFromRequests(t *testing.T) {
	t.Parallel()
	var seen tally
	for i := range 100 {
		seen.add(outcome{kind: "get", took: time.Duration(i+1) * time.Millisecond})
	}
	seen.add(outcome{kind: start, took: time.Minute})
	seen.add(outcome{kind: start, took: time.Hour, failure: "timeout"})
	got := seen.stats()
	if got.Requests != 102 || got.Failures != 1 || got.Reasons["start timeout"] != 1 {
		t.Errorf("requests, failures, reasons = %d, %d, %v; want 102, 1, start timeout", got.Requests, got.Failures,
			got.Reasons)
	}
	if got.P50 != 50*time.Millisecond || got.P99 != 99*time.Millisecond || got.Start != time.Minute {
		t.Errorf("p50, p99, start = %s, %s, %s; want 50ms, 99ms, 1m0s", got.P50, got.P99, got.Start)
	}
	if empty := (&tally{}).stats(); empty.P99 != 0 || empty.ErrorRate() != 0 {
		t.Errorf("stats of nothing = %+v, want zeros", empty)
	}
}

func TestScore_FormatsTheMostFrequentAnswers(t *testing.T) {
	t.Parallel()
	s := newScore()
	release := s.hold()
	s.hold()()
	release()
	for _, status := range []string{"a", "b", "b", "c", "d", "e", "f", "g"} {
		s.count(status)
	}
	if got, want := s.String(), "2 in flight; b: 2, a: 1, c: 1, d: 1, e: 1, f: 1, 1 further kinds"; got != want {
		t.Errorf("score = %q, want %q", got, want)
	}
	if got := newScore().String(); got != "" {
		t.Errorf("score of nothing = %q, want none", got)
	}
}

// TestAttacks_AreInTheReadme compares the attacks with the table of the README.
func TestAttacks_AreInTheReadme(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range attacks() {
		if a.begin != nil && !strings.Contains(string(b), "\n| "+a.name+" | ") {
			t.Errorf("emulators/README.md does not list the attack %q", a.name)
		}
	}
}

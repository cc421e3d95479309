package load

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// mostRatio is how many times longer the 99th percentile may be during an attack.
const mostRatio = 1.5

// Row is the effect of one attack.
type Row struct {
	// Attack names the attack. Control marks the row without one, which shows the noise of the machine.
	Attack  string
	Control bool
	// Without and With are what good clients saw without and with the attack.
	Without, With Stats
	// Hostile says what the hostile client did and saw.
	Hostile string
	// Repeats is how many earlier measurements showed an effect.
	Repeats int
}

// OK reports whether good clients saw no effect: no more errors, and no answer times that are much longer.
func (r Row) OK() bool {
	return r.Control || (r.With.ErrorRate() <= r.Without.ErrorRate() && ratio(r.With.P99, r.Without.P99) <= mostRatio)
}

func (r Row) verdict() string {
	if r.OK() {
		return "ok"
	}
	return fmt.Sprintf("EFFECT: errors %.1f %% -> %.1f %%, p99 %.2f x", 100*r.Without.ErrorRate(),
		100*r.With.ErrorRate(), ratio(r.With.P99, r.Without.P99))
}

func ratio(with, without time.Duration) float64 { return float64(with) / float64(max(1, without)) }

// Report is the result of Run.
type Report struct{ Rows []Row }

// OK reports whether no attack had an effect.
func (r Report) OK() bool {
	for _, row := range r.Rows {
		if !row.OK() {
			return false
		}
	}
	return len(r.Rows) > 0
}

// Print writes the report as a table, and the reasons of failures below it.
func (r Report) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\nattack\trequests\terrors without\twith\tp50 without\twith\tratio\tp99 without\twith\tratio\t"+
		"start without\twith\t\t\n")
	for _, row := range r.Rows {
		a, b := row.Without, row.With
		verdict := "ok"
		if !row.OK() {
			verdict = "EFFECT"
		}
		fmt.Fprintf(t, "%s\t%d + %d\t%.1f %%\t%.1f %%\t%s\t%s\t%.2f x\t%s\t%s\t%.2f x\t%s\t%s\t%s\t\n", row.Attack,
			a.Requests, b.Requests, 100*a.ErrorRate(), 100*b.ErrorRate(), shown(a.P50), shown(b.P50),
			ratio(b.P50, a.P50), shown(a.P99), shown(b.P99), ratio(b.P99, a.P99), shown(a.Start), shown(b.Start),
			verdict)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, row := range r.Rows {
		for _, note := range []struct{ what, text string }{
			{"hostile client", row.Hostile},
			{"failures without", counts(row.Without.Reasons)},
			{"failures with", counts(row.With.Reasons)},
			{"slowest with (p99)", slowest(row)},
		} {
			if note.text != "" {
				fmt.Fprintf(w, "%s, %s: %s\n", row.Attack, note.what, note.text)
			}
		}
		if row.Repeats > 0 {
			fmt.Fprintf(w, "%s: %d earlier measurements showed an effect\n", row.Attack, row.Repeats)
		}
	}
	return nil
}

// mostKinds is how many kinds of requests slowest names.
const mostKinds = 3

// slowest names the kinds of requests that took longest with an attack that has an effect.
func slowest(r Row) string {
	if r.OK() {
		return ""
	}
	kinds := slices.SortedFunc(maps.Keys(r.With.Kinds), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.With.Kinds[b], r.With.Kinds[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, kind := range kinds[:min(mostKinds, len(kinds))] {
		parts = append(parts, fmt.Sprintf("%s %s (without %s)", kind, shown(r.With.Kinds[kind]),
			shown(r.Without.Kinds[kind])))
	}
	return strings.Join(parts, ", ")
}

// shown rounds a time to what differs between measurements.
func shown(d time.Duration) string {
	if d >= time.Second {
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}

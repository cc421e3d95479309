// Package bench counts what the system spends: calls, documents, messages and time series, an operation and a month,
// with the real code against the emulators. Counts are exact and the same on every machine; what depends on the
// machine, such as time, is not measured here.
//
// It knows how to put single functions together so that everything that they send is counted, what the counts are held
// against, and what they cost. It does not know how any function works.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"agents.example/controlplane/emulators/firestoreemu"
	"agents.example/controlplane/emulators/gcloud"
	"agents.example/controlplane/infra/firestore"
)

// Row is one figure with what it is held against.
type Row struct {
	// ID and What name the figure.
	ID, What string
	// Ours is what was counted, and Limit what it can't be less than, in the same unit.
	Ours, Limit float64
	// Unit is what is counted, or dollars.
	Unit string
	// Most is the ratio of the two that is aimed at.
	Most float64
	// Note says more, such as what else was seen; it may be empty.
	Note string
}

// dollars is the unit of costs.
const dollars = "$"

// Ratio is how many times the limit was spent. Nothing of nothing is once.
func (r Row) Ratio() float64 {
	if r.Ours == r.Limit {
		return 1
	}
	return r.Ours / r.Limit
}

// OK reports whether the figure is as it is aimed at.
func (r Row) OK() bool { return r.Ratio() <= r.Most+1e-9 }

// Report is what was counted.
type Report struct {
	Rows  []Row
	Costs []Cost
}

// Options says what to run with.
type Options struct {
	// Dir takes logs.
	Dir string
	// Emulators says whether Firestore is the official emulator or the embedded part. Both count alike.
	Emulators gcloud.Choice
	// AttachFirestore is the address of a running emulator to use.
	AttachFirestore string
	// Agents is how many agents the month is of; 0 is 1,000.
	Agents int
	// NoCluster leaves out what needs the local Kubernetes cluster, whose first start takes minutes.
	NoCluster bool
	// Progress is told what is being counted; nil is nobody.
	Progress io.Writer
}

// measure counts some figures.
type measure struct {
	name string
	run  func(context.Context, *environment) (Report, error)
}

func measures() []measure {
	return []measure{
		{"reads with an API key", measureReads},
		{"creation", measureCreation},
		{"provisioning", measureProvisioning},
		{"a cycle of metrics", measureCycles},
		{"a month", measureMonth},
	}
}

// Run counts everything. The error says what could not be counted.
func Run(ctx context.Context, o Options) (_ Report, err error) {
	if o.Agents == 0 {
		o.Agents = 1000
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	emulator, err := firestoreemu.Start(ctx, firestoreemu.Options{
		Choice: o.Emulators, Attach: o.AttachFirestore, Dir: o.Dir, Indexes: firestore.Indexes(),
	})
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, emulator.Close()) }()
	l := &environment{host: emulator.Host, agents: o.Agents, dir: o.Dir, noCluster: o.NoCluster, progress: o.Progress}
	var all Report
	for _, m := range measures() {
		began := time.Now()
		found, err := m.run(ctx, l)
		if err != nil {
			return all, fmt.Errorf("count %s: %w", m.name, err)
		}
		fmt.Fprintf(o.Progress, "  %-24s %s\n", m.name, time.Since(began).Round(100*time.Millisecond))
		all.Rows, all.Costs = append(all.Rows, found.Rows...), append(all.Costs, found.Costs...)
	}
	slices.SortStableFunc(all.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(len(a.ID), len(b.ID)), strings.Compare(a.ID, b.ID))
	})
	return all, nil
}

// Print writes the tables for a person.
func (r Report) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\n#\twhat\tours\tlimit\tratio\taim\t\n")
	for _, row := range r.Rows {
		verdict := "ok"
		if !row.OK() {
			verdict = "MISSED"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.2f x\t<= %.2f x\t%s\t%s\n",
			row.ID, row.What, row.amount(row.Ours), row.amount(row.Limit), row.Ratio(), row.Most, verdict, row.Note)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, cost := range r.Costs {
		if err := cost.print(w); err != nil {
			return err
		}
	}
	return nil
}

// amount writes a number with the row's unit.
func (r Row) amount(v float64) string {
	switch {
	case r.Unit == dollars:
		return fmt.Sprintf("$%.2f", v)
	case v == float64(int64(v)):
		return withThousands(int64(v)) + " " + r.Unit
	default:
		return fmt.Sprintf("%.2f %s", v, r.Unit)
	}
}

// withThousands writes a whole number with its thousands apart.
func withThousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

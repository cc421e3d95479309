// Package bench counts what operations of the system cost: calls, documents, messages and time series, for one
// operation and for a month. It runs the real code against the emulators, compares them with targets and prices
// them. The counts are the same on every machine. Times, of the CPU and of provisioning, are compared with those of
// other programs that do the same work in the same run. emulators/README.md has a table of the rows, P1 and so on. The
// package does not know how any function works.
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

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/firestoreemu"
	"agents.example/controlplane/emulators/gcloud"
	"agents.example/controlplane/infra/firestore"
)

// Row is one figure and its target.
type Row struct {
	// ID and What name the figure. emulators/README.md says what each ID stands for.
	ID, What string
	// Ours is the count, and Limit the least possible count, in the same unit.
	Ours, Limit float64
	// Unit is the unit of both, such as "Firestore calls", or dollars.
	Unit string
	// Most is the target: the largest acceptable ratio of Ours to Limit.
	Most float64
	// Note is an optional remark.
	Note string
	// Timed says that the figure is a time or memory, which differs from run to run.
	Timed bool
	// Low and High are the smallest and the largest ratio of the rounds in which a time was measured; 0 if there was
	// only one.
	Low, High float64
}

// dollars is the unit of prices.
const dollars = "$"

// Ratio returns Ours divided by Limit. It is 1 if both are 0.
func (r Row) Ratio() float64 {
	if r.Ours == r.Limit {
		return 1
	}
	return r.Ours / r.Limit
}

// OK reports whether the figure meets its target.
func (r Row) OK() bool { return r.Ratio() <= r.Most+1e-9 }

// Report is the result of Run.
type Report struct {
	Rows  []Row
	Costs []Cost
}

// Options configure Run.
type Options struct {
	// Dir holds logs.
	Dir string
	// Emulators chooses the official or the embedded emulator of Firestore for counts, which are the same.
	Emulators gcloud.Choice
	// AttachFirestore is the address of a running emulator to use.
	AttachFirestore string
	// Agents is the number of agents in the month; 0 is 1,000.
	Agents int
	// Provisions is the number of agents whose provisioning is timed; 0 leaves out the figures that are times.
	Provisions int
	// Rows are the IDs of the rows to measure, such as "P2"; empty measures all.
	Rows []string
	// Profile is a directory for CPU profiles of what P2 measures; empty writes none.
	Profile string
	// Cluster is the kind of the local Kubernetes cluster; empty means embedded.
	Cluster cluster.Kind
	// NoCluster leaves out the figures that need a cluster.
	NoCluster bool
	// NoPrograms leaves out the figures of the programs of a deployment, which take long to link.
	NoPrograms bool
	// Progress receives a line for each group of figures; it may be nil.
	Progress io.Writer
}

// measure counts a group of figures. rows are the IDs of the rows that it returns.
type measure struct {
	name string
	rows []string
	run  func(context.Context, *environment) (Report, error)
	// cluster says that it needs the local Kubernetes cluster, and timed that it only measures times or memory. It is
	// left out where these are.
	cluster, timed bool
	// programs says that it links the programs of a deployment.
	programs bool
	// long says that it takes many minutes. It is measured only if one of its rows is chosen.
	long bool
}

func measures() []measure {
	return []measure{
		{name: "reads with an API key", rows: []string{"P1", "P11"}, run: onDeployment(measureReads)},
		{
			name: "CPU time of reads", rows: []string{"P2"}, run: onEmbeddedFirestore(onDeployment(measureGets)),
			timed: true,
		},
		{name: "session tokens", rows: []string{"P3"}, run: measureTokens},
		{name: "creation", rows: []string{"P4"}, run: onDeployment(measureCreation)},
		{name: "secrets", rows: []string{"P4"}, run: onDeployment(measureSecrets)},
		{name: "packages of the first start", rows: []string{"P14"}, run: countPackages},
		{name: "start of a cluster", rows: []string{"P14"}, run: measureClusterStart, cluster: true, timed: true},
		{
			name: "cold starts", rows: []string{"P5"}, run: onEmbeddedFirestore(onDeployment(measureColdStart)),
			programs: true,
		},
		{name: "provisioning", rows: []string{"P6", "P19"}, run: onDeployment(measureProvisioning), cluster: true},
		{
			name: "pace of provisioning", rows: []string{"P7", "P8"}, cluster: true, timed: true,
			run: onEmbeddedFirestore(onDeployment(measurePace)),
		},
		{
			name: "check for drift", rows: []string{"P9"}, cluster: true, timed: true,
			run: onEmbeddedFirestore(onDeployment(measureDrift)),
		},
		{name: "a request to an agent", rows: []string{"P13"}, run: measureRouter, timed: true},
		{name: "lookups of agents", rows: []string{"P13"}, run: measureLookups, timed: true},
		{name: "a request to a container", rows: []string{"P13"}, run: measureFront, timed: true},
		{name: "waits", rows: []string{"P18"}, run: onEmbeddedFirestore(onDeployment(measureWaits)), timed: true},
		{
			name: "streams of events", rows: []string{"P18"}, run: onEmbeddedFirestore(onDeployment(measureStreams)),
			timed: true,
		},
		{
			name: "deliveries to webhooks", rows: []string{"P21"}, timed: true,
			run: onEmbeddedFirestore(onDeployment(measureDeliveries)),
		},
		{
			name: "a release", rows: []string{"P22"}, cluster: true,
			run: onEmbeddedFirestore(onDeployment(measureRelease)),
		},
		{
			name: "an agent that sleeps", rows: []string{"P23"}, cluster: true,
			run: onEmbeddedFirestore(onDeployment(measureSleep)),
		},
		{name: "streams of waits", rows: []string{"P18"}, run: onDeployment(measureWaitStreams)},
		{name: "first start", rows: []string{"P14"}, run: measureFirstStart, long: true},
		{name: "tests", rows: []string{"P15"}, run: measureTests, long: true},
		{name: "idle local cloud", rows: []string{"P14"}, run: measureIdle, long: true},
		{name: "console", rows: []string{"P16"}, run: onDeployment(measureConsole)},
		{name: "command line tool", rows: []string{"P17"}, run: measureTool, timed: true},
		{
			name: "a large fleet", rows: []string{"P20"}, run: onEmbeddedFirestore(measureLarge),
			cluster: true, long: true,
		},
		{name: "memory of routes", rows: []string{"P12"}, run: onEmbeddedFirestore(measureMemory), long: true},
		{name: "a month", rows: []string{"P10", "P11", "P12"}, run: onDeployment(measureMonth)},
	}
}

// selected returns the measures of the chosen rows; all but the long ones, if none is chosen. Errors: for an unknown
// row.
func selected(rows []string) ([]measure, error) {
	for _, row := range rows {
		if !slices.ContainsFunc(measures(), func(m measure) bool { return slices.Contains(m.rows, row) }) {
			return nil, fmt.Errorf("no figure is called %q", row)
		}
	}
	return slices.DeleteFunc(measures(), func(m measure) bool {
		if len(rows) == 0 {
			return m.long
		}
		return !slices.ContainsFunc(m.rows, func(row string) bool { return slices.Contains(rows, row) })
	}), nil
}

// onDeployment makes a measure use a separate deployment.
func onDeployment(run func(context.Context, *environment, *deployment) (Report, error)) func(context.Context,
	*environment) (Report, error) {
	return func(ctx context.Context, l *environment) (_ Report, err error) {
		d, err := l.deploy(ctx)
		if err != nil {
			return Report{}, err
		}
		defer func() { err = closeDeployment(err, d) }()
		return run(ctx, l, d)
	}
}

// onEmbeddedFirestore makes a measure use a separate, embedded Firestore. Times include the emulator, which runs on the
// same CPUs here but not in a deployment, and the official one needs about as much CPU as what is measured.
func onEmbeddedFirestore(run func(context.Context, *environment) (Report, error)) func(context.Context,
	*environment) (Report, error) {
	return func(ctx context.Context, l *environment) (_ Report, err error) {
		emulator, err := firestoreemu.Start(ctx, firestoreemu.Options{
			Choice: gcloud.Embedded, Dir: l.dir, Indexes: firestore.Indexes(),
		})
		if err != nil {
			return Report{}, err
		}
		defer func() { err = errors.Join(err, emulator.Close()) }()
		embedded := *l
		embedded.host = emulator.Host
		return run(ctx, &embedded)
	}
}

// Run counts all figures. It fails if an operation fails, not if a figure misses its target.
func Run(ctx context.Context, o Options) (_ Report, err error) {
	if o.Agents == 0 {
		o.Agents = 1000
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	chosen, err := selected(o.Rows)
	if err != nil {
		return Report{}, err
	}
	emulator, err := firestoreemu.Start(ctx, firestoreemu.Options{
		Choice: o.Emulators, Attach: o.AttachFirestore, Dir: o.Dir, Indexes: firestore.Indexes(),
	})
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, emulator.Close()) }()
	l := &environment{
		host: emulator.Host, agents: o.Agents, provisions: o.Provisions, dir: o.Dir, cluster: o.Cluster,
		noCluster: o.NoCluster, profile: o.Profile, progress: o.Progress,
	}
	var all Report
	for _, m := range chosen {
		if m.cluster && o.NoCluster || m.programs && o.NoPrograms || m.timed && o.Provisions == 0 {
			continue
		}
		began := time.Now()
		found, err := m.run(ctx, l)
		if err != nil {
			return all, fmt.Errorf("count %s: %w", m.name, err)
		}
		fmt.Fprintf(o.Progress, "  %-24s %s\n", m.name, time.Since(began).Round(100*time.Millisecond))
		all.Rows, all.Costs = append(all.Rows, found.Rows...), append(all.Costs, found.Costs...)
	}
	if len(o.Rows) > 0 {
		all.Rows = slices.DeleteFunc(all.Rows, func(r Row) bool { return !slices.Contains(o.Rows, r.ID) })
	}
	slices.SortStableFunc(all.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(len(a.ID), len(b.ID)), strings.Compare(a.ID, b.ID))
	})
	return all, nil
}

// Print writes the report as tables.
func (r Report) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\n#\toperation\tours\tlimit\tratio\ttarget\t\n")
	for _, row := range r.Rows {
		verdict := "ok"
		if !row.OK() {
			verdict = "MISSED"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t<= %.2f x\t%s\t%s\n",
			row.ID, row.What, row.amount(row.Ours), row.amount(row.Limit), row.ratio(), row.Most, verdict, row.Note)
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

// ratio formats the ratio and its spread.
func (r Row) ratio() string {
	if r.High == 0 {
		return fmt.Sprintf("%.2f x", r.Ratio())
	}
	return fmt.Sprintf("%.2f x [%.2f..%.2f]", r.Ratio(), r.Low, r.High)
}

// amount formats a number with the row's unit.
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

// withThousands formats a whole number with thousands separators.
func withThousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

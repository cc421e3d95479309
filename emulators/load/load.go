// Package load measures running local clouds. It does not know how any function works.
//
// Run measures what a hostile client takes from the others. It runs the deployed binaries as one instance of each
// service, with production limits, and measures the requests of well-behaved clients with and without each attack, in
// turns. It simulates no load balancer: Cloud Armor would refuse a part of each attack. MeasureNodes measures agents on
// a real node.
package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/gcloud"
)

// Options configure Run. Only Dir is required.
type Options struct {
	// Dir holds logs and state.
	Dir string
	// Binaries is the directory of the binaries to measure; empty builds those of the module in the working directory.
	Binaries string
	// Emulators chooses between official and embedded emulators of Firestore and Pub/Sub.
	Emulators gcloud.Choice
	// Attacks selects attacks by name; nil selects all.
	Attacks *regexp.Regexp
	// Rounds is how often each attack is measured, in turns with its absence; 0 is 3.
	Rounds int
	// Lead is the time of a phase before the measurement begins, so that the attack is under way; 0 is 5 s. Phase is
	// the time of the measurement; 0 is 10 s.
	Lead, Phase time.Duration
	// Repeats is how often an attack is measured again if it has an effect, because other programs on the machine have
	// one, too. The last measurement counts.
	Repeats int
	// Progress receives a line for each phase; it may be nil.
	Progress io.Writer
}

func (o Options) withDefaults() Options {
	if o.Rounds == 0 {
		o.Rounds = 3
	}
	if o.Lead == 0 {
		o.Lead = 5 * time.Second
	}
	if o.Phase == 0 {
		o.Phase = 10 * time.Second
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	return o
}

// runner measures attacks on a running cloud.
type runner struct {
	Options
	cloud     *cloud.Cloud
	good      []*tenant
	hostile   *tenant
	addresses int // used so far
}

// Run measures the selected attacks. It fails if a measurement fails, not if an attack has an effect.
func Run(ctx context.Context, o Options) (_ Report, err error) {
	o = o.withDefaults()
	c, err := cloud.Start(ctx, cloud.Options{
		Dir: o.Dir, Binaries: o.Binaries, Emulators: o.Emulators, Separate: true, Grouped: true, ProductionLimits: true,
		Progress: o.Progress,
	})
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	r := &runner{Options: o, cloud: c}
	if err := r.addTenants(ctx); err != nil {
		return Report{}, err
	}
	var report Report
	for _, a := range attacks() {
		if o.Attacks != nil && !o.Attacks.MatchString(a.name) {
			continue
		}
		row, err := r.measure(ctx, a)
		if err != nil {
			return report, fmt.Errorf("measure %s: %w", a.name, err)
		}
		report.Rows = append(report.Rows, row)
	}
	return report, nil
}

// measure measures one attack, and again if it has an effect.
func (r *runner) measure(ctx context.Context, a attack) (Row, error) {
	for repeat := 0; ; repeat++ {
		row, err := r.measureOnce(ctx, a)
		if row.Repeats = repeat; err != nil || row.OK() || repeat >= r.Repeats {
			return row, err
		}
		fmt.Fprintf(r.Progress, "  %s: %s; measuring again\n", a.name, row.verdict())
	}
}

// measureOnce alternates phases without and with the attack.
func (r *runner) measureOnce(ctx context.Context, a attack) (Row, error) {
	without, with, hits := &tally{}, &tally{}, newScore()
	for range r.Rounds {
		for _, arm := range []struct {
			name  string
			into  *tally
			score *score
		}{{name: "without", into: without}, {name: "with", into: with, score: hits}} {
			before := arm.into.stats()
			if err := r.phase(ctx, a, arm.into, arm.score); err != nil {
				return Row{}, err
			}
			after := arm.into.stats()
			fmt.Fprintf(r.Progress, "  %-22s %-8s %4d requests, %d failed\n", a.name, arm.name,
				after.Requests-before.Requests, after.Failures-before.Failures)
		}
		if err := sleep(ctx, a.recovery); err != nil {
			return Row{}, err
		}
	}
	return Row{
		Attack: a.name, Control: a.begin == nil, Without: without.stats(), With: with.stats(), Hostile: hits.String(),
	}, nil
}

// phase runs the good clients, with the attack if there is a score for it.
func (r *runner) phase(parent context.Context, a attack, into *tally, hits *score) error {
	ctx, end := context.WithCancel(parent)
	defer end()
	r.removeLeftovers(ctx)
	from := r.nextAddress()
	attackDone := make(chan struct{})
	go func() {
		defer close(attackDone)
		if hits == nil || a.begin == nil {
			return
		}
		c := newAPIClient(r.cloud.Ready.BaseURL, from)
		defer c.close()
		a.begin(&attacker{
			apiClient: c, tenant: r.hostile, from: from, api: r.cloud.Functions.Addr("api"), score: hits,
		}, ctx)
	}()
	c := newAPIClient(r.cloud.Ready.BaseURL, from)
	defer c.close()
	r.runGoodClients(ctx, c, into)
	end() // the attack lasts until the last good client has its answer
	<-attackDone
	return parent.Err()
}

// nextAddress returns an address of this machine that no phase has used, so that what the limits remember about a
// phase's address does not change the next phase. Good and hostile clients of a phase share it, as behind a NAT.
func (r *runner) nextAddress() string {
	r.addresses++
	return fmt.Sprintf("127.1.%d.%d", r.addresses/250, 1+r.addresses%250)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Attacks returns the names of all attacks.
func Attacks() string {
	var all []string
	for _, a := range attacks() {
		all = append(all, a.name)
	}
	return strings.Join(all, ", ")
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// A verdict is what became of a planted defect.
type verdict string

const (
	caught       verdict = "caught"
	survived     verdict = "SURVIVED"
	notApplied   verdict = "NOT APPLIED"
	notCompiled  verdict = "NOT COMPILED"
	notGenerated verdict = "NOT GENERATED"
	proofless    verdict = "PROVES NOTHING"
)

// An Outcome is a row of the table.
type Outcome struct {
	Defect  *Defect
	Verdict verdict
	// Detail is what an engineer needs to repair a defect that was not caught.
	Detail  string
	Seconds float64
}

// A testRun is one call of go test.
type testRun func(ctx context.Context, g group, tests []string) (Result, error)

// A Runner plants defects in a tree, one at a time.
type Runner struct {
	Tree     *Tree
	Test     testRun
	Generate func(ctx context.Context) error
	Progress *progress
}

// progress says what was done, by all runners.
type progress struct {
	mu            sync.Mutex
	out           io.Writer
	done, planned int
}

func (p *progress) sound(pkg string, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "%6.1f s  without a defect: %s\n", took.Seconds(), pkg)
}

func (p *progress) add(o Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	fmt.Fprintf(p.out, "%6.1f s  %d/%d %s: %s\n", o.Seconds, p.done, p.planned, o.Defect.ID(), o.Verdict)
}

// group is what one call of go test runs.
type group struct {
	pkg  string
	tier tier
}

func (d *Defect) group() group { return group{d.Package, d.Tier} }

// baseline runs the tests of all defects without a defect.
func (r *Runner) baseline(ctx context.Context, defects []*Defect) (map[group]Result, error) {
	tests := map[group][]string{}
	var groups []group
	for _, d := range defects {
		g := d.group()
		if _, ok := tests[g]; !ok {
			groups = append(groups, g)
		}
		for _, name := range d.Tests {
			if !slices.Contains(tests[g], name) {
				tests[g] = append(tests[g], name)
			}
		}
	}
	results := map[group]Result{}
	for _, g := range groups {
		started := time.Now()
		result, err := r.Test(ctx, g, tests[g])
		if err != nil {
			return nil, err
		}
		results[g] = result
		r.Progress.sound(g.pkg, time.Since(started))
	}
	return results, nil
}

// wanted reports tests for which go test did not report action.
func (r Result) wanted(action string, tests []string) error {
	if r.BuildFailed {
		return errors.New("the tests do not compile")
	}
	var errs []error
	for _, name := range tests {
		switch got := r.Actions[name]; got {
		case action:
		case "":
			errs = append(errs, fmt.Errorf("%s did not run", name))
		default:
			errs = append(errs, fmt.Errorf("%s: %s", name, got))
		}
	}
	return errors.Join(errs...)
}

// Run plants each defect, runs its tests, and restores the tree. A test that fails or is skipped without a defect
// proves nothing.
func (r *Runner) Run(ctx context.Context, defects []*Defect) ([]Outcome, error) {
	sound, err := r.baseline(ctx, defects)
	if err != nil {
		return nil, err
	}
	outcomes := make([]Outcome, 0, len(defects))
	for _, d := range defects {
		started := time.Now()
		var outcome Outcome
		if base := sound[d.group()]; base.wanted("pass", d.Tests) != nil {
			outcome = Outcome{
				Verdict: proofless,
				Detail:  fmt.Sprintf("without the defect: %v\n%s", base.wanted("pass", d.Tests), base.Output),
			}
		} else {
			outcome, err = r.try(ctx, d)
		}
		if restored := r.Tree.Restore(); restored != nil {
			return outcomes, restored
		}
		if err != nil {
			return outcomes, err
		}
		outcome.Defect, outcome.Seconds = d, time.Since(started).Seconds()
		outcomes = append(outcomes, outcome)
		r.Progress.add(outcome)
	}
	return outcomes, nil
}

func (r *Runner) try(ctx context.Context, d *Defect) (Outcome, error) {
	if err := r.Tree.Plant(d); err != nil {
		return Outcome{Verdict: notApplied, Detail: err.Error()}, nil
	}
	if d.Generate {
		if err := r.Generate(ctx); err != nil {
			return Outcome{Verdict: notGenerated, Detail: err.Error()}, ctx.Err()
		}
	}
	result, err := r.Test(ctx, d.group(), d.Tests)
	if err != nil {
		return Outcome{}, err
	}
	return d.judge(result), nil
}

// judge compares what go test reported with what the defect expects.
func (d *Defect) judge(result Result) Outcome {
	if result.BuildFailed {
		if d.CompileError {
			return Outcome{Verdict: caught}
		}
		return Outcome{Verdict: notCompiled, Detail: result.Output}
	}
	if d.CompileError {
		return Outcome{Verdict: survived, Detail: "it compiles"}
	}
	if err := result.wanted("fail", d.Tests); err != nil {
		return Outcome{Verdict: survived, Detail: strings.TrimSpace(err.Error())}
	}
	return Outcome{Verdict: caught}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
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
type testRun func(ctx context.Context, pkg string, tests []string, full bool) (Result, error)

// A Runner plants defects in a tree, one at a time.
type Runner struct {
	Tree     *Tree
	Test     testRun
	Generate func(ctx context.Context) error
	Progress io.Writer
}

// Baseline runs the tests of all defects without a defect. A test that fails or is skipped then proves nothing.
func (r *Runner) Baseline(ctx context.Context, defects []*Defect) error {
	type group struct {
		pkg  string
		full bool
	}
	tests := map[group][]string{}
	var groups []group
	for _, d := range defects {
		g := group{d.Package, d.Full}
		if _, ok := tests[g]; !ok {
			groups = append(groups, g)
		}
		for _, name := range d.Tests {
			if !slices.Contains(tests[g], name) {
				tests[g] = append(tests[g], name)
			}
		}
	}
	var errs []error
	for _, g := range groups {
		started := time.Now()
		result, err := r.Test(ctx, g.pkg, tests[g], g.full)
		if err != nil {
			return err
		}
		if err := result.wanted("pass", tests[g]); err != nil {
			errs = append(errs, fmt.Errorf("%s without a defect: %w\n%s", g.pkg, err, result.Output))
		}
		fmt.Fprintf(r.Progress, "%6.1f s  without a defect: %s\n", time.Since(started).Seconds(), g.pkg)
	}
	return errors.Join(errs...)
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

// Run plants each defect, runs its tests, and restores the tree.
func (r *Runner) Run(ctx context.Context, defects []*Defect) ([]Outcome, error) {
	outcomes := make([]Outcome, 0, len(defects))
	for i, d := range defects {
		started := time.Now()
		outcome, err := r.try(ctx, d)
		if restored := r.Tree.Restore(context.WithoutCancel(ctx)); restored != nil {
			return outcomes, restored
		}
		if err != nil {
			return outcomes, err
		}
		outcome.Defect, outcome.Seconds = d, time.Since(started).Seconds()
		outcomes = append(outcomes, outcome)
		fmt.Fprintf(r.Progress, "%6.1f s  %d/%d %s: %s\n", outcome.Seconds, i+1, len(defects), d.ID(), outcome.Verdict)
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
	result, err := r.Test(ctx, d.Package, d.Tests, d.Full)
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

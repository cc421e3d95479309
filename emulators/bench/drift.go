package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/shared/function"
)

const (
	driftFew, driftMany = 20, 100
	// driftRounds is how often the fleet is checked and applied again.
	driftRounds = 5
	// driftChecks is how often one round checks: one check takes a few milliseconds.
	driftChecks = 20
	// driftAge is the age from which the check compares a record with its objects.
	driftAge = 6 * time.Second
)

// measureDrift measures P9: the calls of a check of converged agents do not depend on their number, and it costs the
// real API server at most a hundredth of applying their objects again.
func measureDrift(ctx context.Context, l *environment, d *deployment) (Report, error) {
	p, err := newPace(ctx, l, d)
	if err != nil {
		return Report{}, err
	}
	if err := p.connectCluster(ctx, p.counted.kubeconfig); err != nil {
		return Report{}, err
	}
	ids := []string{p.template.agentID}
	if err := p.converge(ctx, ids); err != nil {
		return Report{}, err
	}
	callsOf := func(n int) (int, error) {
		more := make([]string, n-len(ids))
		for i := range more {
			if more[i], err = p.createAgent(ctx, p.key); err != nil {
				return 0, err
			}
		}
		ids = append(ids, more...)
		if err := p.converge(ctx, more); err != nil {
			return 0, err
		}
		return p.checkDrift(ctx, 1)
	}
	few, err := callsOf(driftFew)
	if err != nil {
		return Report{}, err
	}
	many, err := callsOf(driftMany)
	if err != nil {
		return Report{}, err
	}
	report := Report{Rows: []Row{{
		ID: "P9", What: fmt.Sprintf("check of %d converged agents", driftMany), Ours: float64(many),
		Limit: float64(few), Unit: "Kubernetes calls", Most: 1,
		Note: fmt.Sprintf("limit: the calls for %d agents, one for each kind of object", driftFew),
	}}}
	if l.cluster != cluster.Real {
		return report, nil // this process is the worker and the cluster: their CPU time cannot be told apart
	}
	cost, err := p.compareDrift(ctx, ids)
	report.Rows = append(report.Rows, cost)
	return report, err
}

// converge provisions agents, and waits until a check compares their records with their objects.
func (p *pace) converge(ctx context.Context, ids []string) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(paceWorkers)
	for _, id := range ids {
		group.Go(func() error {
			nudge, err := json.Marshal(function.AgentNudge{AgentID: id})
			if err != nil {
				return err
			}
			_, _, err = p.deliverUntilRunning(groupCtx, id, nudge)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return wait(ctx, driftAge)
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// checkDrift checks all agents a number of times, and returns the calls of one check. The check must find that the
// agents are as they must be.
func (p *pace) checkDrift(ctx context.Context, times int) (calls int, err error) {
	p.counted.drain()
	for range times {
		spent, err := p.countRun(ctx, "CheckDrift")
		if err != nil {
			return 0, err
		}
		if spent.Writes > 0 {
			return 0, errors.New("the check for drift repairs agents that did not drift")
		}
	}
	return p.counted.readCalls() / times, nil
}

// compareDrift compares what a check costs the API server with what applying all objects again costs it. Both are
// without what the cluster needs when it is idle.
func (p *pace) compareDrift(ctx context.Context, ids []string) (Row, error) {
	var r rounds
	applied := p.counted.appliedTo(ids)
	for range driftRounds {
		began := time.Now()
		check, err := during(p.cluster.Pid(), func() error {
			_, err := p.checkDrift(ctx, driftChecks)
			return err
		})
		if err != nil {
			return Row{}, err
		}
		checking := time.Since(began)
		apply, err := during(p.cluster.Pid(), func() error { return p.applyAgain(ctx, applied) })
		if err != nil {
			return Row{}, err
		}
		applying := time.Since(began) - checking
		idle, err := during(p.cluster.Pid(), func() error { return wait(ctx, checking) })
		if err != nil {
			return Row{}, err
		}
		share, agents := float64(applying)/float64(checking), float64(len(ids))
		r.add(milliseconds(check-idle)/driftChecks/agents,
			milliseconds(apply-time.Duration(share*float64(idle)))/agents/100)
	}
	row, err := r.row()
	row.ID, row.What, row.Unit, row.Most = "P9", "the same, of the cluster", "ms of CPU an agent", 1
	row.Note = "limit: a hundredth of applying the agents' objects again"
	return row, err
}

// applyAgain applies objects of agents that have them already.
func (p *pace) applyAgain(ctx context.Context, applied []template) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(paceWorkers)
	for _, t := range applied {
		group.Go(func() error { return p.raw.apply(groupCtx, t, t.agentID) })
	}
	return group.Wait()
}

package bench

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// measureThroughput measures P7. It counts from the first message until the last one is acknowledged, which is when
// all objects are applied and the worker waits for the pod. Its later look at the Ready pod is part of P8.
func (p *pace) measureThroughput(ctx context.Context, agents int) (Row, error) {
	var r rounds
	var oursCPU, limitCPU float64
	done := 0
	for first := true; done < agents; first = false {
		n := min(paceBatch, agents)
		ids, err := p.createPending(ctx, n)
		if err != nil {
			return Row{}, err
		}
		worker, err := p.batch(ctx, ids, p.reconcile)
		if err != nil {
			return Row{}, err
		}
		for i := range ids {
			ids[i] = newID()
		}
		loop, err := p.batch(ctx, ids, func(ctx context.Context, id string) error {
			return p.raw.apply(ctx, p.template, id)
		})
		if err != nil {
			return Row{}, err
		}
		if !first { // the first batches warm up
			r.add(milliseconds(worker.wall)/float64(n), milliseconds(loop.wall)/float64(n))
			oursCPU, limitCPU = oursCPU+milliseconds(worker.cpu), limitCPU+milliseconds(loop.cpu)
			done += n
		}
	}
	row, err := r.row()
	row.ID, row.What = "P7", fmt.Sprintf("provisioning %d agents, %d concurrently", done, paceWorkers)
	row.Unit, row.Most = "ms an agent", 1/0.85
	row.Note = fmt.Sprintf("limit: client-go applies the same objects; CPU of this process, ours with the emulators "+
		"of Firestore and Secret Manager: %.1f and %.1f ms", oursCPU/float64(done), limitCPU/float64(done))
	return row, err
}

// spent is what a batch took: time, and CPU time of this process.
type spent struct{ wall, cpu time.Duration }

// batch provisions agents and returns what that took. It waits until their pods are Ready, so that they do not slow the
// next batch down.
func (p *pace) batch(ctx context.Context, ids []string, provision func(context.Context, string) error) (spent, error) {
	watches := make([]func() error, len(ids))
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for i, id := range ids {
		w, err := p.raw.watchPods(ctx, id)
		if err != nil {
			return spent{}, err
		}
		defer w.Stop()
		watches[i] = func() error { return awaitReady(ctx, w) }
	}
	used, err := processCPU()
	if err != nil {
		return spent{}, err
	}
	began := time.Now()
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(paceWorkers)
	for _, id := range ids {
		group.Go(func() error { return provision(groupCtx, id) })
	}
	if err := group.Wait(); err != nil {
		return spent{}, err
	}
	took := spent{wall: time.Since(began)}
	now, err := processCPU()
	if err != nil {
		return spent{}, err
	}
	took.cpu = now - used
	for _, ready := range watches {
		if err := ready(); err != nil {
			return spent{}, fmt.Errorf("wait for a pod: %w", err)
		}
	}
	return took, nil
}

// measureStart measures P8: from the request that creates an agent until its record says that it runs, compared with
// applying the same objects and watching the pod until it is Ready. A message reaches the worker without delay.
func (p *pace) measureStart(ctx context.Context, starts int) (Row, error) {
	_, key, err := p.createOrganization(ctx)
	if err != nil {
		return Row{}, err
	}
	var ours, limit []float64
	for range starts {
		took, err := p.start(ctx, key)
		if err != nil {
			return Row{}, err
		}
		ours = append(ours, took)
		if took, err = p.startRaw(ctx); err != nil {
			return Row{}, err
		}
		limit = append(limit, took)
	}
	floor := median(limit)
	return Row{
		ID: "P8", What: "creation until the agent runs, median", Ours: median(ours), Limit: floor, Unit: "ms",
		Most: 1.15 + 100/floor, Timed: true,
		Note: "limit: client-go and a watch; the target is 1.15 x + 100 ms",
	}, nil
}

func (p *pace) start(ctx context.Context, key string) (took float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for len(p.running) > 0 {
		<-p.running // agents of before
	}
	began := time.Now()
	id, err := p.createAgent(ctx, key)
	if err != nil {
		return 0, err
	}
	if err := p.reconcile(ctx, id); err != nil {
		return 0, err
	}
	for {
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("wait until agent %s runs: %w", id, ctx.Err())
		case running := <-p.running:
			if running == id {
				return milliseconds(time.Since(began)), nil
			}
		}
	}
}

func (p *pace) startRaw(ctx context.Context) (took float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	id := newID()
	began := time.Now()
	w, err := p.raw.watchPods(ctx, id)
	if err != nil {
		return 0, err
	}
	defer w.Stop()
	if err := p.raw.apply(ctx, p.template, id); err != nil {
		return 0, err
	}
	err = awaitReady(ctx, w)
	return milliseconds(time.Since(began)), err
}

package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"agents.example/controlplane/emulators/dataplane"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/plan"
)

const (
	// waits is how many clients of P18 wait, and waitOrganizations are their organizations.
	waits             = 1000
	waitOrganizations = 10
	// waitMemory is the target of P18: how much the process grows, compared with the least program that holds as many
	// requests. Most of that are the buffers of net/http and the stacks of its goroutines.
	waitMemory = 1.5
	// waitHeap is the limit of Go's memory in the process. It is so low that the process grows by what the waits need,
	// and not by garbage.
	waitHeap = "48MiB"
	// waitTimeout bounds how long the waits take to begin. They end after 55 s.
	waitTimeout = 45 * time.Second
)

// measureWaits measures P18: the memory of a process that holds waits for agents. A deployed process gets at most
// as many requests as an instance serves concurrently; here its limits are raised.
func measureWaits(ctx context.Context, l *environment, d *deployment) (Report, error) {
	dir, err := dataplane.BuildPackages(ctx, "agents.example/controlplane/functions/cmd/api",
		"agents.example/controlplane/emulators/bench/helloget")
	if err != nil {
		return Report{}, err
	}
	n := min(waits, 20*l.provisions)
	all, err := d.createWaiting(ctx, n)
	if err != nil {
		return Report{}, err
	}
	s := starter{deployment: d, dir: dir, logs: l.dir, key: d.key, host: l.host}
	last := all[n-1].path // its organization has the key of s
	least, err := s.memoryOfWaits(ctx, coldStart{
		binary: "helloget", target: "Hello", path: "/",
		env: []string{"DOCUMENT=" + strings.TrimPrefix(last, "/api/v1/")},
	}, slices.Repeat([]waiting{{path: "/wait"}}, n))
	if err != nil {
		return Report{}, err
	}
	ours, err := s.memoryOfWaits(ctx, coldStart{
		binary: "api", target: "GetAgent", path: last,
		env: []string{"RATE_LIMIT_FACTOR=100000", fmt.Sprintf("MAX_HELD_ANSWERS=%d", 100*n)},
	}, all)
	return Report{Rows: []Row{{
		ID: "P18", What: fmt.Sprintf("memory of %d waits", n), Ours: ours, Limit: least, Unit: "KiB",
		Most: waitMemory, Timed: true,
		Note: fmt.Sprintf("%.0f KiB each; limit: functions-framework and handlers that wait", ours/float64(n)),
	}}}, err
}

// memoryOfWaits starts a program, and returns by how many KiB it grows for the waits.
func (s starter) memoryOfWaits(ctx context.Context, p coldStart, all []waiting) (float64, error) {
	p.method, p.want, p.env = http.MethodGet, http.StatusOK, append(p.env, "GOMEMLIMIT="+waitHeap)
	program, err := s.serve(ctx, p)
	if err != nil {
		return 0, err
	}
	before, err := residentKiB(program.Pid())
	if err != nil {
		return 0, err
	}
	program.url = strings.TrimSuffix(program.url, p.path)
	after, err := program.residentWhileWaiting(ctx, all)
	return after - before, err
}

// measureWaitStreams counts the streams of waits in one organization.
func measureWaitStreams(ctx context.Context, l *environment, d *deployment) (Report, error) {
	of, _, err := d.createOrganization(ctx)
	if err != nil {
		return Report{}, err
	}
	a, err := d.createRecord(of)
	if err != nil {
		return Report{}, err
	}
	d.drain()
	of, cancel := context.WithTimeout(of, waitTimeout)
	defer cancel()
	all, of := errgroup.WithContext(of)
	seen := make(chan struct{}, waits)
	for range waits {
		all.Go(func() error {
			_, err := d.deps.Agents.Await(of, a.ID, func(agent.Agent) bool { seen <- struct{}{}; return false })
			return err
		})
	}
	each := func() error {
		for range waits {
			select {
			case <-seen:
			case <-of.Done():
				return errors.Join(context.Cause(of), all.Wait())
			}
		}
		return nil
	}
	if err := each(); err != nil {
		return Report{}, err
	}
	// A wait that sees the change listens.
	_, err = d.deps.Agents.Change(of, a.ID, func(a *agent.Agent) error { a.Name = "renamed"; return nil })
	if err := errors.Join(err, each()); err != nil {
		return Report{}, err
	}
	streams := d.drain().Listens
	cancel()
	return Report{Rows: []Row{{
		ID: "P18", What: fmt.Sprintf("streams of %d waits in one organization", waits), Ours: float64(streams),
		Limit: 1, Unit: "streams of Firestore", Most: 1,
	}}}, all.Wait()
}

// waiting is a request for an agent that is not steady.
type waiting struct{ path, key string }

// createRecord creates an agent that no worker provisions, in the organization of the context.
func (d *deployment) createRecord(of context.Context) (agent.Agent, error) {
	draft := agent.Draft{Name: "agent", Plan: plan.Hobby, Cloud: "gcp", Region: region}
	return d.deps.Agents.Create(of, agent.New(newID(), cell, draft, time.Now()))
}

// createWaiting creates agents that are not steady.
func (d *deployment) createWaiting(ctx context.Context, n int) ([]waiting, error) {
	var all []waiting
	for range waitOrganizations {
		of, key, err := d.createOrganization(ctx)
		if err != nil {
			return nil, err
		}
		d.key = key
		for range n / waitOrganizations {
			a, err := d.createRecord(of)
			if err != nil {
				return nil, err
			}
			all = append(all, waiting{"/api/v1/agents/" + a.ID, key})
		}
	}
	return all, nil
}

// residentWhileWaiting sends all waits and returns the program's memory once it is idle.
func (s *served) residentWhileWaiting(ctx context.Context, all []waiting) (resident float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	requests, waitCtx := errgroup.WithContext(ctx)
	for _, w := range all {
		requests.Go(func() error {
			err := s.get(waitCtx, w.path+"?wait=55", w.key)
			if ctx.Err() != nil {
				return nil //nolint:nilerr // the measurement is over
			}
			return cmp.Or(err, errors.New("a wait ended early"))
		})
	}
	err = s.awaitIdle(waitCtx)
	if err == nil {
		resident, err = residentKiB(s.Pid())
	}
	cancel()
	return resident, errors.Join(err, requests.Wait())
}

// awaitIdle waits until the program uses no more CPU time than what wakes up by itself.
func (s *served) awaitIdle(ctx context.Context) error {
	const pause, idle = time.Second, 5 * time.Millisecond
	tick := time.NewTicker(pause)
	defer tick.Stop()
	last, err := childCPU(s.Pid())
	for err == nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until the program is idle: %w", context.Cause(ctx))
		case <-tick.C:
		}
		before := last
		if last, err = childCPU(s.Pid()); last-before < idle {
			return err
		}
	}
	return err
}

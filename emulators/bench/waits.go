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
	// waitHeap is the limit of Go's memory in the process whose memory is measured. It is so low that the process grows
	// by what the waits need, and not by garbage. Collecting garbage so often needs CPU time.
	waitHeap = "GOMEMLIMIT=48MiB"
	// waitTimeout bounds how long the waits take to begin. They end after 55 s.
	waitTimeout = 45 * time.Second
)

// measureWaits measures P18: the memory of a process that holds waits for agents. A deployed process gets at most
// as many requests as an instance serves concurrently; here its limits are raised.
func measureWaits(ctx context.Context, l *environment, d *deployment) (Report, error) {
	s, err := l.starter(ctx, d, "functions/cmd/api", "emulators/bench/leastread")
	if err != nil {
		return Report{}, err
	}
	n := min(waits, 20*l.provisions)
	all, err := d.createWaiting(ctx, n)
	if err != nil {
		return Report{}, err
	}
	s.key = d.key
	last := all[n-1].path // its organization has the key of s
	least, err := s.hold(ctx, coldStart{
		binary: "leastread", target: "Hello", path: "/",
		env: []string{"DOCUMENT=" + strings.TrimPrefix(last, "/api/v1/")},
	}, slices.Repeat([]held{{path: "/wait"}}, n), 0)
	if err != nil {
		return Report{}, err
	}
	ours, err := s.hold(ctx, coldStart{
		binary: "api", target: "GetAgent", path: last, env: unlimited(n),
	}, onAll(all, "?wait=55"), 0)
	return Report{Rows: []Row{memoryRow(n, "waits", ours, least)}}, err
}

// unlimited raises the limits of requests that are held.
func unlimited(n int) []string {
	return []string{"RATE_LIMIT_FACTOR=100000", fmt.Sprintf("MAX_HELD_ANSWERS=%d", 100*n)}
}

// memoryRow compares the memory of held requests.
func memoryRow(n int, what string, ours, least holding) Row {
	return Row{
		ID: "P18", What: fmt.Sprintf("memory of %d %s", n, what), Ours: ours.memory, Limit: least.memory, Unit: "KiB",
		Most: waitMemory, Timed: true,
		Note: fmt.Sprintf("%.0f KiB each; limit: functions-framework and handlers that do the same",
			ours.memory/float64(n)),
	}
}

// holding is what it costs a program to hold requests.
type holding struct {
	// memory is by how many KiB it grows.
	memory float64
	// cpu is its CPU time while nothing happens.
	cpu time.Duration
}

// hold starts a program and sends the requests. It measures the program's memory, and its CPU time if there is a time
// for that, in which nothing happens.
func (s starter) hold(ctx context.Context, p coldStart, all []held, idle time.Duration) (holding, error) {
	p.method, p.want = http.MethodGet, http.StatusOK
	if idle == 0 {
		p.env = append(slices.Clone(p.env), waitHeap)
	}
	program, err := s.serve(ctx, p)
	if err != nil {
		return holding{}, err
	}
	before, err := residentKiB(program.Pid())
	if err != nil {
		return holding{}, err
	}
	program.url = strings.TrimSuffix(program.url, p.path)
	cost, err := program.whileHeld(ctx, all, idle)
	cost.memory -= before
	return cost, err
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
	of, cancel := context.WithTimeout(of, patience)
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

// held is a request that is not answered, or not to its end, for as long as it is measured.
type held struct{ path, key string }

// onAll adds a query to requests.
func onAll(all []held, query string) []held {
	all = slices.Clone(all)
	for i := range all {
		all[i].path += query
	}
	return all
}

// createRecord creates an agent that no worker provisions, in the organization of the context.
func (d *deployment) createRecord(of context.Context) (agent.Agent, error) {
	draft := agent.Draft{Name: "agent", Plan: plan.Hobby, Cloud: "gcp", Region: region}
	return d.deps.Agents.Create(of, agent.New(newID(), cell, draft, time.Now()))
}

// createWaiting creates agents that are not steady, and returns a request for each.
func (d *deployment) createWaiting(ctx context.Context, n int) ([]held, error) {
	var all []held
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
			all = append(all, held{"/api/v1/agents/" + a.ID, key})
		}
	}
	return all, nil
}

// whileHeld sends all requests, and measures the program once it is idle: its whole memory, and its CPU time.
func (s *served) whileHeld(ctx context.Context, all []held, idle time.Duration) (cost holding, err error) {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout+idle)
	requests, waitCtx := errgroup.WithContext(ctx)
	for _, w := range all {
		requests.Go(func() error {
			err := s.get(waitCtx, w.path, w.key)
			if ctx.Err() != nil {
				return nil //nolint:nilerr // the measurement is over
			}
			return cmp.Or(err, errors.New("a held request ended early"))
		})
	}
	err = s.awaitIdle(waitCtx)
	if err == nil {
		cost.memory, err = residentKiB(s.Pid())
	}
	if err == nil && idle > 0 {
		cost.cpu, err = during(s.Pid(), func() error { return wait(waitCtx, idle) })
	}
	cancel()
	return cost, errors.Join(err, requests.Wait())
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

const (
	// idleStreams is how long idle streams are measured at most. In this time each sends two heartbeats.
	idleStreams = 30 * time.Second
	// streamCPU is the target for the CPU time of idle streams, compared with the least program that sends as many
	// heartbeats.
	streamCPU = 1.5
)

// measureStreams measures the other half of P18: what a process that holds streams of events costs while nothing
// happens.
func measureStreams(ctx context.Context, l *environment, d *deployment) (Report, error) {
	s, err := l.starter(ctx, d, "functions/cmd/accounts", "emulators/bench/leastread")
	if err != nil {
		return Report{}, err
	}
	n := min(waits, 20*l.provisions)
	var all []held
	for range waitOrganizations {
		_, key, err := d.createOrganization(ctx)
		if err != nil {
			return Report{}, err
		}
		d.key = key
		all = append(all, slices.Repeat([]held{{"/api/v1/events/stream", key}}, n/waitOrganizations)...)
	}
	s.key = d.key
	both := func(idle time.Duration) (ours, least holding, err error) {
		least, err = s.hold(ctx, coldStart{
			binary: "leastread", target: "Hello", path: "/stream", env: []string{"DOCUMENT=events/none"},
		}, slices.Repeat([]held{{path: "/stream"}}, n), idle)
		if err != nil {
			return ours, least, err
		}
		ours, err = s.hold(ctx, coldStart{
			binary: "accounts", path: "/api/v1/events", env: unlimited(n),
		}, all, idle)
		return ours, least, err
	}
	ours, least, err := both(0)
	if err != nil {
		return Report{}, err
	}
	measured := min(idleStreams, time.Duration(l.provisions)*time.Second)
	oursIdle, leastIdle, err := both(measured)
	if err != nil {
		return Report{}, err
	}
	return Report{Rows: []Row{
		memoryRow(n, "idle streams of events", ours, least),
		{
			ID: "P18", What: fmt.Sprintf("%d idle streams of events for %s", n, measured),
			Ours: milliseconds(oursIdle.cpu), Limit: milliseconds(leastIdle.cpu), Unit: "ms of CPU", Most: streamCPU,
			Timed: true, Note: "limit: functions-framework and handlers that write as many heartbeats",
		},
	}}, nil
}

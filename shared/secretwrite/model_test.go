package secretwrite_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/secret"
)

// mode is how an outside effect goes wrong.
type mode int

const (
	before mode = iota // the process ends before the effect
	after              // the process ends after the effect
	lost               // the effect happens and its answer is lost
	failed             // the effect does not happen, and says so
	modes
)

// crash is the panic that simulates the end of a worker's or a request's process.
type crash struct{}

// trouble makes the effect with this number, counted from 1, go wrong.
type trouble struct {
	effect int
	mode   mode
}

// version is one version in the secret store.
type version struct {
	value       string
	credentials credential.Credentials
	created     time.Time
	destroyed   bool
}

// pod is a running pod. Its environment and credentials never change.
type pod struct {
	config      string
	env         map[string]string
	credentials credential.Credentials
}

// simulation simulates the records, the secret store and the cluster, with troubles at chosen effects. It keeps only
// the promises of the ports.
type simulation struct {
	id       string
	record   *agent.Agent
	history  map[string]secret.Operation
	versions map[string][]version
	written  *pod // the content of the namespace's Secret
	// pod runs, and next replaces it as soon as a worker waits for it.
	pod, next *pod
	renewals  int

	effects  int
	troubles []trouble
	// deleteAt is the effect before which a client deletes the agent; 0 is never.
	deleteAt int
	// mutant names a defect to plant.
	mutant string
}

var errLost = fault.New(fault.Unavailable, "secret_store_unavailable", "The answer was lost.")

func (w *simulation) effect(do func()) error {
	w.effects++
	if w.effects == w.deleteAt && w.record != nil {
		next := clone(*w.record)
		if next.Act(agent.Delete, "", time.Now()) == nil {
			w.write(next)
		}
	}
	for _, t := range w.troubles {
		if t.effect != w.effects {
			continue
		}
		switch t.mode {
		case before:
			panic(crash{})
		case after:
			do()
			panic(crash{})
		case lost:
			do()
			return errLost
		default:
			return errLost
		}
	}
	do()
	return nil
}

// write commits the agent and the history of its operations.
func (w *simulation) write(a agent.Agent) {
	for _, o := range a.Operations {
		if w.mutant != "torn commit" || o.Open() {
			w.history[o.ID] = o
		}
	}
	a.Operations = slices.DeleteFunc(slices.Clone(a.Operations), func(o secret.Operation) bool { return !o.Open() })
	w.record = &a
}

func clone(a agent.Agent) agent.Agent {
	a.Stages, a.Env, a.Operations, a.Live = slices.Clone(a.Stages), slices.Clone(a.Env), slices.Clone(a.Operations),
		slices.Clone(a.Live)
	a.SecretVersions = slices.Clone(a.SecretVersions)
	if a.Failure != nil {
		f := *a.Failure
		a.Failure = &f
	}
	return a
}

// store implements agent.Store and agent.WorkerStore.
type store struct{ *simulation }

func (w store) Get(context.Context, string) (agent.Agent, error) {
	if w.record == nil {
		return agent.Agent{}, agent.NotFound()
	}
	return clone(*w.record), nil
}

func (w store) Load(ctx context.Context, id string) (agent.Agent, error) { return w.Get(ctx, id) }

// Await waits for ctx to end: the simulation has no concurrent writers.
func (w store) Await(ctx context.Context, id string, until func(agent.Agent) bool) (agent.Agent, error) {
	if a, err := w.Get(ctx, id); err != nil || until(a) {
		return a, err
	}
	<-ctx.Done()
	return w.Get(ctx, id)
}

func (w store) List(context.Context, agent.Filter, page.Request) (page.Page[agent.Agent], error) {
	return page.Page[agent.Agent]{}, nil
}

func (w store) Create(_ context.Context, a agent.Agent) (agent.Agent, error) {
	a = clone(a)
	err := w.effect(func() { w.write(a) })
	return clone(a), err
}

func (w store) Change(_ context.Context, _ string, change func(*agent.Agent) error) (agent.Agent, error) {
	if w.record == nil {
		return agent.Agent{}, agent.NotFound()
	}
	next := clone(*w.record)
	if err := change(&next); err != nil || reflect.DeepEqual(next, *w.record) {
		return next, err
	}
	result, failure := agent.Agent{}, error(nil)
	err := w.effect(func() {
		// What came in between, such as a deletion, has the closure run again.
		next = clone(*w.record)
		if failure = change(&next); failure == nil {
			w.write(next)
			result = clone(*w.record)
		}
	})
	return result, errors.Join(err, failure)
}

func (w store) Update(_ context.Context, a agent.Agent, change func(*agent.Agent)) (agent.Agent, error) {
	var failure error
	err := w.effect(func() {
		switch {
		case w.record == nil:
			failure = agent.NotFound()
		case w.mutant != "unguarded write" && w.record.Generation != a.Generation:
			failure = agent.ErrSuperseded
		default:
			next := clone(*w.record)
			if w.mutant == "unguarded write" {
				next = clone(a)
			}
			change(&next)
			w.write(next)
		}
	})
	switch {
	case err != nil:
		return a, err
	case w.record == nil:
		return a, failure
	default:
		return clone(*w.record), failure
	}
}

func (w store) Remove(context.Context, agent.Agent) error {
	return w.effect(func() { w.record = nil })
}

func (w store) ListDue(context.Context, time.Time, int) ([]agent.Agent, error) { return nil, nil }

func (w store) ListByStatus(context.Context, agent.Status, string, int) (page.Page[agent.Agent], error) {
	return page.Page[agent.Agent]{}, nil
}

package provisioning_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
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

// crash is the panic that stands for the end of the process.
type crash struct{}

// trouble has the effect with this number, counted from 1, go wrong.
type trouble struct {
	effect int
	mode   mode
}

// world is a model of everything outside: the record, the cluster and the secret store, with trouble at chosen effects.
// It keeps the promises of the ports and no others.
type world struct {
	id       string
	record   *agent.Agent
	objects  map[agent.StageName]int64 // the generation that was applied last
	replicas int
	versions int
	removed  int

	effects  int
	troubles []trouble
	// deleteAt is the effect before which a client deletes the agent; 0 is never.
	deleteAt int
	// mutant plants a defect, by which the suite proves that it would find one.
	mutant string
}

func newWorld(troubles []trouble, deleteAt int) *world {
	a := agent.New("3fa85f64-5717-4562-b3fc-2c963f66afa6", "cell-1", agent.Draft{Name: "a", Plan: "pro"}, time.Now())
	return &world{id: a.ID, record: &a, objects: map[agent.StageName]int64{}, troubles: troubles, deleteAt: deleteAt}
}

var errLost = fault.New(fault.Unavailable, "lost", "The answer was lost.")

// effect does something outside, or fails to.
func (w *world) effect(do func() error) error {
	w.effects++
	if w.effects == w.deleteAt && w.record != nil {
		_ = w.record.Act(agent.Delete, "", time.Now())
	}
	for _, t := range w.troubles {
		if t.effect != w.effects {
			continue
		}
		switch t.mode {
		case before:
			panic(crash{})
		case after:
			_ = do()
			panic(crash{})
		case lost:
			_ = do()
			return errLost
		default:
			return errLost
		}
	}
	return do()
}

// records is the world as agent.Records.
type records struct{ *world }

func (w records) Load(context.Context, string) (agent.Agent, error) {
	if w.record == nil {
		return agent.Agent{}, agent.NotFound()
	}
	return clone(*w.record), nil
}

func (w records) Update(_ context.Context, a agent.Agent, change func(*agent.Agent)) (agent.Agent, error) {
	var err error
	failure := w.effect(func() error {
		switch {
		case w.record == nil:
			err = agent.NotFound()
		case w.mutant != "unguarded write" && w.record.Generation != a.Generation:
			err = agent.ErrSuperseded
		default:
			next := clone(*w.record)
			if w.mutant == "unguarded write" {
				next = clone(a)
			}
			change(&next)
			w.record = &next
		}
		return nil
	})
	if failure != nil {
		return a, failure
	}
	if w.record == nil {
		return a, err
	}
	return clone(*w.record), err
}

func (w records) Remove(context.Context, agent.Agent) error {
	return w.effect(func() error {
		if w.record != nil {
			w.removed++
		}
		w.record = nil
		return nil
	})
}

func (w records) ListDue(_ context.Context, now time.Time, _ int) ([]agent.Agent, error) {
	if w.record == nil || w.record.WorkDueAt.IsZero() || w.record.WorkDueAt.After(now) {
		return nil, nil
	}
	return []agent.Agent{clone(*w.record)}, nil
}

func (w records) ListByStatus(_ context.Context, status agent.Status, after string, _ int) ([]agent.Agent, error) {
	if w.record == nil || w.record.Status != status || w.record.ID <= after {
		return nil, nil
	}
	return []agent.Agent{clone(*w.record)}, nil
}

func clone(a agent.Agent) agent.Agent {
	a.Stages = slices.Clone(a.Stages)
	a.Env = slices.Clone(a.Env)
	a.Operations = slices.Clone(a.Operations)
	if a.Failure != nil {
		f := *a.Failure
		a.Failure = &f
	}
	return a
}

// cluster is the world as provisioning.Cluster.
type cluster struct{ *world }

func (w cluster) Apply(_ context.Context, a agent.Agent, stage agent.StageName, m provisioning.RuntimeInput) error {
	return w.effect(func() error {
		if _, there := w.objects[agent.StageNamespace]; !there && stage != agent.StageNamespace {
			return fault.New(fault.Unavailable, provisioning.CodeNamespaceMissing, "There is no namespace.")
		}
		if stage == agent.StageIdentity && m.Credentials == (credential.Credentials{}) {
			return &provisioning.Permanent{Code: "no_credentials", Message: "identity without credentials"}
		}
		w.objects[stage] = a.Generation
		if stage == agent.StageRuntime {
			w.replicas = 0
			if a.WantsPod() {
				w.replicas = 1
			}
		}
		return nil
	})
}

func (w cluster) AwaitReady(context.Context, agent.Agent) error {
	if w.replicas == 0 {
		return &provisioning.PodFailure{Code: "no_pod", Message: "no pod was asked for"}
	}
	return nil
}

func (w cluster) Delete(context.Context, agent.Agent) error {
	return w.effect(func() error {
		if w.mutant != "forgotten namespace" {
			clear(w.objects)
		}
		w.replicas = 0
		return nil
	})
}

func (w cluster) AwaitGone(context.Context, agent.Agent) error {
	if len(w.objects) > 0 && w.mutant != "forgotten namespace" {
		return errors.New("still there")
	}
	return nil
}

// vault is the world as credential.Vault.
type vault struct{ *world }

func (w vault) EnsureCredentials(context.Context, string, string) (c credential.Credentials, version int64, err error) {
	err = w.effect(func() error {
		if w.versions == 0 || w.mutant == "version a call" {
			w.versions++
		}
		return nil
	})
	return credential.Credentials{DashboardUsername: "admin", DashboardPassword: "p", APIKey: "k"}, 1, err
}

func (w vault) GetCredentials(context.Context, string, int64) (credential.Credentials, error) {
	return credential.Credentials{DashboardUsername: "admin", DashboardPassword: "p", APIKey: "k"}, nil
}

func (w vault) DestroyVersionsBefore(context.Context, string, string, int64) error { return nil }

func (w vault) Read(context.Context, string, string, int64) ([]byte, error) { return nil, nil }

func (w vault) Destroy(context.Context, string) error {
	return w.effect(func() error { w.versions = 0; return nil })
}

// gateway is the world as provisioning.Gateway.
type gateway struct{ *world }

func (w gateway) Probe(context.Context, agent.Agent) error { return nil }

func (w gateway) Accepts(context.Context, agent.Agent, credential.Credentials) (provisioning.Verdict, error) {
	return provisioning.Accepted, nil
}

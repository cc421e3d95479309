package provisioning_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/page"
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

// crash is the panic that simulates the end of the process.
type crash struct{}

// trouble makes the effect with this number, counted from 1, go wrong.
type trouble struct {
	effect int
	mode   mode
}

// simulation simulates the record, the cluster and the secret store, with troubles at chosen effects. It keeps only the
// promises of the ports.
type simulation struct {
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
	// mutant names a defect to plant.
	mutant string
}

func newSimulation(troubles []trouble, deleteAt int) *simulation {
	a := agent.New("3fa85f64-5717-4562-b3fc-2c963f66afa6", "cell-1", agent.Draft{Name: "a", Plan: "pro"}, time.Now())
	return &simulation{
		id: a.ID, record: &a, objects: map[agent.StageName]int64{}, troubles: troubles,
		deleteAt: deleteAt,
	}
}

var errLost = fault.New(fault.Unavailable, "lost", "The answer was lost.")

// effect runs an outside effect, with the trouble that is planned for it.
func (w *simulation) effect(do func() error) error {
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

// records implements agent.WorkerStore.
type records struct{ *simulation }

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

func (w records) ListByStatus(
	_ context.Context, status agent.Status, after string, _ int,
) (page.Page[agent.Agent], error) {
	if w.record == nil || w.record.Status != status || w.record.ID <= after {
		return page.Page[agent.Agent]{}, nil
	}
	return page.Page[agent.Agent]{Items: []agent.Agent{clone(*w.record)}}, nil
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

// cluster implements provisioning.Cluster.
type cluster struct{ *simulation }

func (w cluster) Apply(_ context.Context, a agent.Agent, stage agent.StageName, m provisioning.RuntimeInput) error {
	return w.effect(func() error {
		if _, there := w.objects[agent.StageNamespace]; !there && stage != agent.StageNamespace {
			return fault.New(fault.Unavailable, provisioning.CodeNamespaceMissing, "There is no namespace.")
		}
		if stage == agent.StageIdentity && m.Credentials == (credential.Credentials{}) {
			return &provisioning.Permanent{Code: "no_credentials", Message: "identity without credentials"}
		}
		if stage == agent.StageRuntime && w.objects[stage] > a.Generation {
			return &provisioning.Stale{Generation: w.objects[stage]}
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

func (w cluster) Prune(context.Context, agent.Agent) error {
	return w.effect(func() error { return nil })
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

// secretStore implements credential.SecretStore.
type secretStore struct{ *simulation }

func (w secretStore) EnsureCredentials(context.Context, string, string) (c credential.Credentials, version int64,
	err error,
) {
	err = w.effect(func() error {
		if w.versions == 0 || w.mutant == "version a call" {
			w.versions++
		}
		return nil
	})
	return credential.Credentials{DashboardUsername: "admin", DashboardPassword: "p", APIKey: "k"}, 1, err
}

func (w secretStore) GetCredentials(context.Context, string, int64) (credential.Credentials, error) {
	return credential.Credentials{DashboardUsername: "admin", DashboardPassword: "p", APIKey: "k"}, nil
}

func (w secretStore) DestroyVersions(context.Context, string, string, int64, int64) error { return nil }

func (w secretStore) Read(context.Context, string, string, int64) ([]byte, error) { return nil, nil }

func (w secretStore) Destroy(context.Context, string, []string) error {
	return w.effect(func() error { w.versions = 0; return nil })
}

// prober implements provisioning.AgentProber.
type prober struct{ *simulation }

func (w prober) Probe(context.Context, agent.Agent) error { return nil }

func (w prober) Accepts(context.Context, agent.Agent, credential.Credentials) (provisioning.Verdict, error) {
	return provisioning.Accepted, nil
}

package provisioning_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/simulationtest"
)

// world is one agent in the database, the cluster and the secret store of package simulationtest.
type world struct {
	*simulationtest.Direct
	t  *testing.T
	id string
	// client makes the clients' changes.
	client context.Context //nolint:containedctx // of an admin

	// Direct's lock guards all below.

	database *simulationtest.Database
	cluster  *simulationtest.Cluster
	secrets  *simulationtest.SecretStore
	// applied holds the generation of each stage that was applied last.
	applied map[agent.StageName]int64
}

var errLost = fault.New(fault.Unavailable, "lost", "The answer was lost.")

// newWorld has a new agent, of a plan without daily snapshots.
func newWorld(t *testing.T) *world {
	t.Helper()
	const organization = "9b2ee9a5-7b60-4a51-93a4-1d6a3d4f2c11"
	w := &world{
		t: t, database: simulationtest.NewDatabase(), secrets: simulationtest.NewSecretStore(time.Now),
		applied: map[agent.StageName]int64{},
		client: call.As(t.Context(), identity.Caller{
			Type: identity.Session, ID: "user", OrganizationID: organization, Role: identity.RoleAdmin,
		}),
	}
	start := time.Now()
	w.cluster = simulationtest.NewCluster(time.Now, func() time.Duration { return time.Since(start) })
	w.Direct = &simulationtest.Direct{Cluster: w.cluster, Down: map[simulationtest.Service]bool{}}
	w.database.SetPlan(organization, plan.Pro)
	a := agent.New("3fa85f64-5717-4562-b3fc-2c963f66afa6", "cell-1", agent.Draft{Name: "a", Plan: plan.Hobby}, w.Now())
	must(t, errorOf((simulationtest.Agents{Database: w.database, Process: w}).Create(w.client, a)))
	w.id, w.Effects = a.ID, 0
	return w
}

// record returns the present record; the zero agent if it is gone.
func (w *world) record() agent.Agent {
	w.Lock()
	defer w.Unlock()
	a, ok := w.database.Agent(w.id)
	if !ok {
		return agent.Agent{}
	}
	return a
}

// change changes the record, as something else than the worker under test.
func (w *world) change(change func(*agent.Agent)) {
	w.t.Helper()
	if _, err := w.records().Update(w.t.Context(), w.record(), change); err != nil {
		w.t.Errorf("change the record: %v", err)
	}
}

// act is the change of a client's action.
func act(trigger agent.Trigger) func(*agent.Agent) {
	return func(a *agent.Agent) { _ = a.Act(trigger, agent.Manual, time.Now()) }
}

func (w *world) records() simulationtest.WorkerStore {
	return simulationtest.WorkerStore{Database: w.database, Process: w}
}

func (w *world) secretClient() simulationtest.SecretClient {
	return simulationtest.SecretClient{Store: w.secrets, Process: w}
}

// objects is the cluster of a world. It records which generations are applied.
type objects struct {
	simulationtest.ClusterClient
	world  *world
	before beforeStage
}

// beforeStage runs before a stage is applied, and before a look at the pod, which has StageReady. With an error, the
// call fails.
type beforeStage func(ctx context.Context, a agent.Agent, stage agent.StageName) error

func (w *world) objects() objects {
	return w.objectsBefore(func(context.Context, agent.Agent, agent.StageName) error { return nil })
}

func (w *world) objectsBefore(before beforeStage) objects {
	return objects{simulationtest.ClusterClient{Cluster: w.cluster, Process: w, Name: "worker"}, w, before}
}

func (o objects) Apply(ctx context.Context, a agent.Agent, stage agent.StageName,
	in provisioning.RuntimeInput,
) error {
	if err := o.before(ctx, a, stage); err != nil {
		return err
	}
	err := o.ClusterClient.Apply(ctx, a, stage, in)
	if err == nil {
		o.world.Lock()
		defer o.world.Unlock()
		o.world.applied[stage] = a.Generation
	}
	return err
}

func (o objects) CheckReady(ctx context.Context, a agent.Agent) error {
	if err := o.before(ctx, a, agent.StageReady); err != nil {
		return err
	}
	return o.ClusterClient.CheckReady(ctx, a)
}

// loseNamespace deletes the agent's namespace, as a person does.
func (w *world) loseNamespace() {
	w.t.Helper()
	if err := w.objects().Delete(w.t.Context(), w.record()); err != nil {
		w.t.Errorf("delete the namespace: %v", err)
	}
}

// existence says which objects of the agent exist.
func (w *world) existence() provisioning.Existence {
	w.t.Helper()
	found, err := simulationtest.PodClient(w.objects().ClusterClient).Existence(w.t.Context(), w.record())
	if err != nil {
		w.t.Error(err)
	}
	return found
}

// reconciler makes a worker process.
func (w *world) reconciler() *provisioning.Reconciler {
	return &provisioning.Reconciler{
		Records: w.records(), Cluster: w.objects(), Volumes: w.objects(), Secrets: w.secretClient(), Now: w.Now,
		Agents: simulationtest.Agents{Database: w.database, Process: w},
		Prober: simulationtest.Prober{Cluster: w.cluster, Process: w, Failed: func(string) {}},
	}
}

// deliver is one delivery of a nudge.
func (w *world) deliver() error { return w.reconciler().Reconcile(w.t.Context(), w.id) }

// settle delivers until a delivery is acknowledged, as a queue does, and again whenever the sweep nudges, until no work
// is due.
func (w *world) settle() {
	w.t.Helper()
	for range 100 {
		wait := time.Second // the queue's back-off
		if w.deliver() == nil {
			due := w.record().WorkDueAt
			if due.IsZero() {
				return
			}
			wait = time.Until(due)
		}
		time.Sleep(wait) //nolint:forbidigo // in the bubble's time
	}
	w.t.Errorf("the work does not end: %+v", w.record())
}

func settled(a agent.Agent) bool { return a.Status == agent.Running && a.Converged() }

// inBubble runs a parallel subtest whose time is that of a bubble.
func inBubble(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, test)
	})
}

// must fails the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// errorOf drops the result of a call that also returns an error.
func errorOf[T any](_ T, err error) error { return err }

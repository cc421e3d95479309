package workers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/functions/workers"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/simulationtest"
)

// organization and cell are where the agent of every test is.
const (
	organization = "9b2ee9a5-7b60-4a51-93a4-1d6a3d4f2c11"
	cell         = "cell-1"
)

// world is one agent in a simulated database, cluster and secret store.
type world struct {
	*simulationtest.Direct
	database *simulationtest.Database
	cluster  *simulationtest.Cluster
	secrets  *simulationtest.SecretStore
	nudges   *agenttest.Nudges
	id       string
	ctx      context.Context // of an admin
	// applied are the generations of the workloads that the cluster accepted.
	applied []int64
	// unguarded plants a defect: the store ignores the generation for which a worker writes.
	unguarded bool
}

// newWorld returns a world with a running agent.
func newWorld(t *testing.T, plant func(*world)) *world {
	t.Helper()
	w := &world{
		database: simulationtest.NewDatabase(), nudges: &agenttest.Nudges{},
		ctx: call.As(t.Context(), identity.Caller{
			Type: identity.Session, ID: "user", OrganizationID: organization, Role: identity.RoleAdmin,
		}),
	}
	start := time.Now()
	w.cluster = simulationtest.NewCluster(time.Now, func() time.Duration { return time.Since(start) })
	w.Direct = &simulationtest.Direct{Cluster: w.cluster}
	w.secrets = simulationtest.NewSecretStore(time.Now)
	w.database.SetPlan(organization, plan.Pro)
	created, err := w.agents().Create(w.ctx, agent.New(agenttest.ID(), cell,
		agent.Draft{Name: "a", Plan: plan.Hobby, Cloud: agent.DefaultCloud, Region: agent.DefaultRegion}, w.Now()))
	if err != nil {
		t.Fatal(err)
	}
	w.id = created.ID
	if err := w.deliver(nil); err != nil {
		t.Fatal(err)
	}
	if plant != nil {
		plant(w)
	}
	return w
}

func (w *world) agents() simulationtest.Agents {
	return simulationtest.Agents{Database: w.database, Process: w, Nudger: w.nudges}
}

// change makes a client's change with a number, which is published as one message.
func (w *world) change(t *testing.T, number int, what string) {
	t.Helper()
	_, err := w.agents().Change(w.ctx, w.id, func(a *agent.Agent) error {
		a.Lease = agent.Lease{} // correctness does not depend on it
		if what == "update" {
			value := fmt.Sprint(number)
			return a.Apply(agent.Patch{Env: map[string]*string{"CHANGE": &value}}, w.Now())
		}
		return a.Act(agent.Trigger(what), agent.Manual, w.Now())
	})
	if err != nil {
		t.Fatalf("change %d, %s: %v", number, what, err)
	}
}

// deliver delivers a message to the worker function. A slow delivery waits in hold before its first effect on the
// workload.
func (w *world) deliver(hold func()) error {
	records := agent.WorkerStore(simulationtest.WorkerStore{Database: w.database, Process: w})
	if w.unguarded {
		records = unguardedStore{records}
	}
	worker := workers.Reconcile(&provisioning.Reconciler{
		Records: records, Cluster: &slowCluster{w.client(), w, hold}, Now: w.Now,
		Secrets: simulationtest.SecretClient{Store: w.secrets, Process: w},
		Prober:  simulationtest.Prober{Cluster: w.cluster, Process: w},
	})
	data, err := json.Marshal(function.AgentNudge{AgentID: w.id})
	if err != nil {
		return err
	}
	return worker.Handle(context.Background(), function.Message{Data: data})
}

func (w *world) client() simulationtest.ClusterClient {
	return simulationtest.ClusterClient{Cluster: w.cluster, Process: w, Name: "worker"}
}

// slowCluster calls hold before the first change of the workload, and records the generations that the cluster accepts.
type slowCluster struct {
	provisioning.Cluster
	world *world
	hold  func()
}

func (c *slowCluster) holdOnce() {
	if hold := c.hold; hold != nil {
		c.hold = nil
		hold()
	}
}

// Apply implements provisioning.Cluster.
func (c *slowCluster) Apply(ctx context.Context, a agent.Agent, stage agent.StageName,
	in provisioning.RuntimeInput,
) error {
	if stage != agent.StageRuntime {
		return c.Cluster.Apply(ctx, a, stage, in)
	}
	c.holdOnce()
	err := c.Cluster.Apply(ctx, a, stage, in)
	if err == nil {
		c.world.Lock()
		defer c.world.Unlock()
		c.world.applied = append(c.world.applied, a.Generation)
	}
	return err
}

// Delete implements provisioning.Cluster.
func (c *slowCluster) Delete(ctx context.Context, a agent.Agent) error {
	c.holdOnce()
	return c.Cluster.Delete(ctx, a)
}

// unguardedStore writes for whatever generation the record has.
type unguardedStore struct{ agent.WorkerStore }

// Update implements agent.WorkerStore.
func (s unguardedStore) Update(ctx context.Context, a agent.Agent, change func(*agent.Agent)) (agent.Agent, error) {
	present, err := s.Load(ctx, a.ID)
	if err != nil {
		return a, err
	}
	return s.WorkerStore.Update(ctx, present, change)
}

// check returns what is wrong with the agent after the last message of its changes.
func (w *world) check(changes []string) error {
	if !slices.IsSorted(w.applied) {
		return fmt.Errorf("the cluster accepted the generations %v, want no older one after a newer one", w.applied)
	}
	pods := simulationtest.PodClient(w.client())
	a, exists := w.database.Agent(w.id)
	there, err := pods.Existence(w.ctx, agent.Agent{ID: w.id, Cell: cell})
	if err != nil {
		return err
	}
	want := map[string]agent.Status{"update": agent.Running, "stop": agent.Stopped, "pause": agent.Paused}
	status := want[changes[len(changes)-1]]
	if status == "" {
		if exists || there.Namespace {
			return fmt.Errorf("the agent was deleted, but record %t, namespace %t", exists, there.Namespace)
		}
		return nil
	}
	if a.Status != status || !a.Converged() || there.Pod != (status == agent.Running) {
		return fmt.Errorf("the agent is %s, converged %t, pod %t; want %s", a.Status, a.Converged(), there.Pod, status)
	}
	newest := ""
	for i, what := range changes {
		if what == "update" {
			newest = fmt.Sprint(i)
		}
	}
	if len(a.Env) != 1 || a.Env[0].Value != newest {
		return fmt.Errorf("the environment is %v, want that of change %s", a.Env, newest)
	}
	found, err := pods.Pods(w.ctx, cell)
	if err == nil && there.Pod && !pods.Current(a, found[0]) {
		err = fmt.Errorf("the pod has the configuration %s, want %s", found[0].Config, simulationtest.Hash(a))
	}
	return err
}

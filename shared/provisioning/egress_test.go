package provisioning_test

import (
	"cmp"
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/secret"
)

// restrict is the change of a client that lets an agent reach one name only.
func restrict(host string) func(*agent.Agent) {
	return func(a *agent.Agent) {
		_ = a.Apply(agent.Patch{Egress: func(egress.Rules) (egress.Rules, error) {
			return egress.Rules{Mode: egress.AllowList, Allow: []string{host}}, nil
		}}, time.Now())
	}
}

// secretlessCluster records whether a value of a secret reached it.
type secretlessCluster struct {
	objects
	values atomic.Int32 // stages are applied concurrently
}

func (c *secretlessCluster) Apply(ctx context.Context, a agent.Agent, stage agent.StageName,
	in provisioning.RuntimeInput,
) error {
	c.values.Add(int32(len(in.Secrets))) //nolint:gosec // few
	return c.objects.Apply(ctx, a, stage, in)
}

// TestReconcile_AppliesAnotherWayOut: the first attempt of a worker closes the network of a running agent that becomes
// restricted, and hands the gate each change of its policy. The value of a brokered secret stays outside the cluster.
func TestReconcile_AppliesAnotherWayOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		broker := func(a *agent.Agent) {
			key := secret.BrokeredKey("TOKEN")
			version, err := w.secretClient().Put(t.Context(), w.id, key, []byte("x"))
			must(t, err)
			_, err = a.BeginOperations(a.SecretsRevision, []secret.Operation{{
				ID: "broker", AgentID: w.id, Key: key, Action: secret.Set, Bytes: 1,
				Target: egress.Target{Hosts: []string{"b.example.com"}}.Canonical().Encode(),
			}}, time.Now())
			stored := []agent.Outcome{{OperationID: "broker", Version: version}}
			must(t, cmp.Or(err, a.RecordStored(stored, time.Now())))
		}
		for _, row := range []struct {
			name   string
			change func(*agent.Agent)
			stages []agent.StageName
		}{
			{
				name: "an agent that becomes restricted", change: restrict("a.example.com"),
				stages: []agent.StageName{agent.StagePolicy, agent.StageRoute},
			},
			{name: "another list", change: restrict("b.example.com"), stages: []agent.StageName{agent.StageRoute}},
			{name: "a brokered secret", change: broker, stages: []agent.StageName{agent.StageRoute}},
		} {
			w.change(row.change)
			r, cluster := w.reconciler(), &secretlessCluster{objects: w.objects()}
			r.Cluster = cluster
			if err := r.Reconcile(t.Context(), w.id); err != nil || cluster.values.Load() > 0 {
				t.Fatalf("%s: %d values reached the cluster, error %v", row.name, cluster.values.Load(), err)
			}
			for _, stage := range row.stages {
				if got, want := w.applied[stage], w.record().Generation; got != want {
					t.Errorf("%s: the stage %s was applied for generation %d, want %d", row.name, stage, got, want)
				}
			}
			w.settle()
		}
		if a := w.record(); len(a.Injected) != 1 || !settled(a) {
			t.Errorf("the agent is %s with the brokered secrets %+v, want running with one", a.Status, a.Injected)
		}
	})
}

// TestReconcile_OpensTheWayOutOfARestoredRecord: the database was restored from a backup, and the agent was restricted
// for the first time since the backup. The cluster refuses a way out without a generation.
func TestReconcile_OpensTheWayOutOfARestoredRecord(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]int64{"the generation of the repair": 1, "a later generation": 50} {
		inBubble(t, name, func(t *testing.T) {
			w := newWorld(t)
			w.settle()
			lost := w.record()
			restrict("a.example.com")(&lost)
			lost.Generation = w.record().Generation + later
			for _, stage := range []agent.StageName{agent.StagePolicy, agent.StageRoute} {
				must(t, w.objects().Apply(t.Context(), lost, stage, provisioning.RuntimeInput{}))
			}
			w.change(func(a *agent.Agent) { a.Repair(time.Now()) })
			w.settle()
			a := w.record()
			if !settled(a) || a.Failure != nil || a.Egress.Restricted() {
				t.Errorf("the agent is %s with %+v and the rules %+v, want running and open", a.Status, a.Failure,
					a.Egress)
			}
			if w.applied[agent.StagePolicy] != a.Generation || w.applied[agent.StageRoute] != a.Generation {
				t.Errorf("the way out was applied for the generations %v, want %d", w.applied, a.Generation)
			}
		})
	}
}

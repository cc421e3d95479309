package provisioning_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/secret"
)

// storingRecords makes a client's request store a value right before a worker's first update.
type storingRecords struct {
	records
	store func()
}

func (r *storingRecords) Update(ctx context.Context, a agent.Agent, change func(*agent.Agent)) (agent.Agent, error) {
	if r.store != nil {
		r.store()
		r.store = nil
	}
	return r.records.Update(ctx, a, change)
}

// recordingCluster records the environment of each pod.
type recordingCluster struct {
	cluster
	environments [][]agent.EnvVar
}

func (c *recordingCluster) Apply(ctx context.Context, a agent.Agent, stage agent.StageName,
	in provisioning.RuntimeInput,
) error {
	if stage == agent.StageRuntime {
		c.environments = append(c.environments, a.Env)
	}
	return c.cluster.Apply(ctx, a, stage, in)
}

// An agent waits for the secret it was created with. A PUT stores the value after a worker has loaded the record and
// before it writes.
func TestReconcile_StartsNoPodWithoutAValueStoredDuringTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSimulation(nil, 0)
		request := func(id string, outcome agent.Outcome) {
			t.Helper()
			o := secret.Operation{
				ID: id, AgentID: w.id, Key: "TOKEN", Action: secret.Set, Bytes: 1,
				RequiredToStart: id == "creation",
			}
			_, err := w.record.BeginOperations(w.record.SecretsRevision, []secret.Operation{o}, w.record.CreatedAt)
			if err == nil {
				outcome.OperationID = id
				err = w.record.RecordStored([]agent.Outcome{outcome}, time.Now())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		request("creation", agent.Outcome{Refused: true, Code: "secret_store_denied"})
		stores := &storingRecords{records: records{w}, store: func() { request("put", agent.Outcome{Version: 1}) }}
		pods := &recordingCluster{cluster: cluster{w}}
		r := reconciler(w)
		r.Records, r.Cluster = stores, pods
		if err := r.Reconcile(t.Context(), w.id); err != nil {
			t.Fatal(err)
		}
		for i, env := range pods.environments {
			if len(env) != 1 || env[0].SecretVersion != 1 {
				t.Errorf("pod %d has the environment %+v, want TOKEN in version 1", i+1, env)
			}
		}
		if w.record.Status != agent.Running || len(pods.environments) == 0 {
			t.Errorf("status = %s with %d pods, want running with one", w.record.Status, len(pods.environments))
		}
	})
}

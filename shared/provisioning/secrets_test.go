package provisioning_test

import (
	"cmp"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/secret"
)

// storingRecords makes a client's request store a value right before a worker's first update.
type storingRecords struct {
	agent.WorkerStore
	store func()
}

func (r *storingRecords) Update(ctx context.Context, a agent.Agent, change func(*agent.Agent)) (agent.Agent, error) {
	if r.store != nil {
		r.store()
		r.store = nil
	}
	return r.WorkerStore.Update(ctx, a, change)
}

// forgetful is a Prober to which the agent accepts every credentials until a time, as a gateway does that applies new
// ones late.
type forgetful struct {
	provisioning.AgentProber
	until time.Time
}

func (f forgetful) Accepts(ctx context.Context, a agent.Agent, c credential.Credentials) (provisioning.Verdict, error) {
	if time.Now().Before(f.until) {
		return provisioning.Accepted, nil
	}
	return f.AgentProber.Accepts(ctx, a, c)
}

// rotate stores other credentials, as a client's request does.
func (w *world) rotate() {
	w.t.Helper()
	version, err := w.secretClient().AddCredentials(w.t.Context(), w.id, agent.DashboardUsername)
	if err != nil {
		w.t.Fatal(err)
	}
	w.change(func(a *agent.Agent) {
		_, err := a.BeginOperations(a.SecretsRevision, []secret.Operation{{
			ID: "rotation", AgentID: w.id, Key: secret.CredentialsKey, Action: secret.Rotate,
		}}, time.Now())
		stored := []agent.Outcome{{OperationID: "rotation", Version: version}}
		if err := cmp.Or(err, a.RecordStored(stored, time.Now())); err != nil {
			w.t.Error(err)
		}
	})
}

// A rotation after a leak is worth nothing while the leaked password still opens the dashboard.
func TestReconcile_KeepsARotationPendingWhileTheFormerCredentialsWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		w.rotate()
		late := time.Now().Add(time.Minute)
		for range 100 {
			r := w.reconciler()
			r.Prober = forgetful{r.Prober, late}
			_ = r.Reconcile(t.Context(), w.id) // an error is tried again
			if !w.record().RotationPending {
				break
			}
			time.Sleep(time.Second) //nolint:forbidigo // in the bubble's time
		}
		if w.record().RotationPending || time.Now().Before(late) {
			t.Errorf("pending: %t, %v before the agent refuses its former credentials; want the rotation done then",
				w.record().RotationPending, time.Until(late))
		}
	})
}

// A record that was restored from a backup names credentials that were replaced since, and destroyed. Its owner rotates
// them.
func TestReconcile_ProvesARotationWithoutTheFormerCredentials(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		former := w.record().CredentialVersion
		w.rotate()
		err := w.secretClient().DestroyVersions(t.Context(), w.id, secret.CredentialsKey, former, former+1)
		must(t, err)
		w.settle()
		a := w.record()
		if a.RotationPending || a.Status != agent.Running || a.CredentialVersion == former {
			t.Errorf("the agent is %s with version %d of its credentials, pending: %t, failure %+v; want it rotated",
				a.Status, a.CredentialVersion, a.RotationPending, a.Failure)
		}
	})
}

// An agent waits for the secret it was created with. A PUT stores the value after a worker has loaded the record and
// before it writes.
func TestReconcile_StartsNoPodWithoutAValueStoredDuringTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		request := func(id string, outcome agent.Outcome) {
			t.Helper()
			o := secret.Operation{
				ID: id, AgentID: w.id, Key: "TOKEN", Action: secret.Set, Bytes: 1,
				RequiredToStart: id == "creation",
			}
			outcome.OperationID = id
			w.change(func(a *agent.Agent) {
				_, err := a.BeginOperations(a.SecretsRevision, []secret.Operation{o}, a.CreatedAt)
				if err := cmp.Or(err, a.RecordStored([]agent.Outcome{outcome}, time.Now())); err != nil {
					t.Error(err)
				}
			})
		}
		request("creation", agent.Outcome{Refused: true, Code: "secret_store_denied"})
		stores := &storingRecords{WorkerStore: w.records(), store: func() {
			version, err := w.secretClient().Put(t.Context(), w.id, "TOKEN", []byte("x"))
			if err != nil {
				t.Error(err)
			}
			request("put", agent.Outcome{Version: version})
		}}
		var environments [][]agent.EnvVar // of each pod
		r := w.reconciler()
		r.Records = stores
		r.Cluster = w.objectsBefore(func(_ context.Context, a agent.Agent, stage agent.StageName) error {
			if stage == agent.StageRuntime {
				environments = append(environments, a.Env)
			}
			return nil
		})
		must(t, r.Reconcile(t.Context(), w.id))
		for i, env := range environments {
			if len(env) != 1 || env[0].SecretVersion != 1 {
				t.Errorf("pod %d has the environment %+v, want TOKEN in version 1", i+1, env)
			}
		}
		if w.record().Status != agent.Running || len(environments) == 0 {
			t.Errorf("status = %s with %d pods, want running with one", w.record().Status, len(environments))
		}
	})
}

package provisioning_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/provisioning"
)

func TestReconcile_MakesNoNewVolumeOfAnAgentThatRan(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*agent.Agent){
		"restarted": act(agent.Restart),
		"repaired":  func(a *agent.Agent) { a.Repair(time.Now()) },
		"resized":   resize(plan.Business),
		"updated": func(a *agent.Agent) {
			value := "fast"
			_ = a.Apply(agent.Patch{Env: map[string]*string{"MODE": &value}}, time.Now())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkNoNewVolume(t, change)
		})
	}
}

// The namespace is there, and the volume is gone.
func TestReconcile_MakesNoLostVolume(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*agent.Agent){
		"repaired": func(a *agent.Agent) { a.Repair(time.Now()) }, "resized": resize(plan.Business),
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.settle()
			w.Lock()
			w.cluster.LoseVolume(w.id)
			w.Unlock()
			w.change(change)
			w.settle()
			a := w.record()
			f := a.Failure
			if a.Status != agent.Error || f == nil || !strings.Contains(f.Message, "volume was deleted") {
				t.Errorf("%s: the agent is %s, failure %+v; want error because of the volume", name, a.Status, f)
			}
			if got := w.volumeGiB(); got != 0 {
				t.Errorf("%s: a worker made a volume of %d GiB without the client's decision", name, got)
			}
			w.change(act(agent.Start))
			w.settle()
			if !settled(w.record()) || w.volumeGiB() == 0 {
				t.Errorf("%s: after the start, the agent is %s with %d GiB, want running with a volume", name,
					w.record().Status, w.volumeGiB())
			}
		})
	}
}

// checkNoNewVolume changes a running agent whose namespace is gone, and then starts it.
func checkNoNewVolume(t *testing.T, change func(*agent.Agent)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		w.loseNamespace()
		w.change(change)
		w.settle()
		a := w.record()
		f := a.Failure
		if a.Status != agent.Error || f == nil || f.Code != provisioning.CodeNamespaceMissing || !f.Retryable ||
			!strings.Contains(f.Message, "volume") {
			t.Fatalf("the agent is %s, failure %+v, want error with a retryable %s", a.Status, f,
				provisioning.CodeNamespaceMissing)
		}
		if made := w.existence(); made.Namespace {
			t.Errorf("a worker made %+v without the client's decision", made)
		}
		w.change(act(agent.Start))
		w.settle()
		if made := w.existence(); !settled(w.record()) || !made.Pod {
			t.Errorf("after the start, the agent is %s with %+v, want running with a pod", w.record().Status, made)
		}
	})
}

func TestReconcile_StartsAgainWhenTheNamespaceOfANewAgentIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.reconciler()
		r.Cluster = w.overtaken(agent.StageRoute, nil, w.loseNamespace)
		if err := r.Reconcile(t.Context(), w.id); err == nil {
			t.Error("Reconcile = nil, want an error: the namespace is gone")
		}
		w.settle()
		if !settled(w.record()) {
			t.Errorf("the agent is %s, failure %+v, want running", w.record().Status, w.record().Failure)
		}
	})
}

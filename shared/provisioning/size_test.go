package provisioning_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/provisioning"
)

// resize moves an agent to a plan, as a client does.
func resize(to plan.ID) func(*agent.Agent) {
	return func(a *agent.Agent) { _ = a.Apply(agent.Patch{Plan: &to}, time.Now()) }
}

// orderedCluster records the stages that are applied, in the order in which they end.
type orderedCluster struct {
	objects
	mu     sync.Mutex
	stages []agent.StageName
}

func (c *orderedCluster) Apply(ctx context.Context, a agent.Agent, stage agent.StageName,
	in provisioning.RuntimeInput,
) error {
	err := c.objects.Apply(ctx, a, stage, in)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stages = append(c.stages, stage)
	return err
}

func TestReconcile_MakesRoomBeforeTheSizeOfAnAgentGrows(t *testing.T) {
	t.Parallel()
	for name, changes := range map[string][]func(*agent.Agent){
		"running":            {resize(plan.Business)},
		"error":              {crash, resize(plan.Business)},
		"paused and resumed": {act(agent.Pause), resize(plan.Business), act(agent.Resume)},
		"stopped, started":   {act(agent.Stop), resize(plan.Business), act(agent.Start)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkOrder(t, changes)
		})
	}
}

// crash breaks a running agent.
func crash(a *agent.Agent) { a.Break(agent.Failure{Code: "pod_crash_loop"}, time.Now()) }

// checkOrder makes changes of a running agent, and checks the order in which the stages are applied for the last one.
func checkOrder(t *testing.T, changes []func(*agent.Agent)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		for _, change := range changes[:len(changes)-1] {
			w.change(change)
			w.settle()
		}
		w.change(changes[len(changes)-1])
		cluster := &orderedCluster{objects: w.objects()}
		r := w.reconciler()
		r.Cluster = cluster
		must(t, r.Reconcile(t.Context(), w.id))
		w.settle()
		w.wantSize()
		place := func(stage agent.StageName) int { return slices.Index(cluster.stages, stage) }
		policy, volume, pod := place(agent.StagePolicy), place(agent.StageStorage), place(agent.StageRuntime)
		if policy < 0 || volume < policy || pod < volume || place(agent.StageNamespace) < 0 {
			t.Errorf("the stages were applied in the order %v, want policy, storage and runtime", cluster.stages)
		}
	})
}

// wantSize checks that the agent runs on the plan business.
func (w *world) wantSize() {
	w.t.Helper()
	if a := w.record(); !settled(a) || a.Plan != plan.Business || w.volumeGiB() != 80 {
		w.t.Errorf("the agent is %s on %s with %d GiB (%+v), want running on business with 80 GiB", a.Status, a.Plan,
			w.volumeGiB(), a.Failure)
	}
}

// volumeGiB is the size of the agent's volume.
func (w *world) volumeGiB() int64 {
	w.Lock()
	defer w.Unlock()
	return w.cluster.VolumeBytes(w.id) >> 30
}

// A volume is made for the first pod. Until then, the size that was asked for first is fixed.
func TestReconcile_GrowsAVolumeThatWasNotMadeYet(t *testing.T) {
	t.Parallel()
	for _, between := range [][]func(*agent.Agent){
		{resize(plan.Business)},
		{act(agent.Stop), resize(plan.Business), act(agent.Start)},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			r := w.reconciler()
			refused := fault.New(fault.Unavailable, "refused", "Refused.")
			r.Cluster = w.overtaken(agent.StageRuntime, refused, func() {})
			if err := r.Reconcile(t.Context(), w.id); err == nil {
				t.Error("Reconcile = nil, want the failure of the runtime stage")
			}
			if got := w.volumeGiB(); got != 5 {
				t.Fatalf("the volume has %d GiB, want 5", got)
			}
			for _, change := range between {
				w.change(change)
			}
			w.settle()
			w.wantSize()
		})
	}
}

// A worker of the former size stops for some time before it applies a stage.
func TestReconcile_AFormerSizeUndoesNothing(t *testing.T) {
	t.Parallel()
	for _, stage := range []agent.StageName{agent.StagePolicy, agent.StageStorage, agent.StageRuntime} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			r := w.reconciler()
			r.Cluster = w.overtaken(stage, nil, func() {
				w.change(resize(plan.Business))
				w.settle()
			})
			if err := r.Reconcile(t.Context(), w.id); err != nil {
				t.Errorf("%s: Reconcile = %v", stage, err)
			}
			w.settle()
			w.wantSize()
		})
	}
}

// The volumes of the agent's class cannot grow.
func TestReconcile_EndsInErrorIfTheVolumeCannotGrow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		w.change(resize(plan.Business))
		r := w.reconciler()
		r.Cluster = w.objectsBefore(func(_ context.Context, _ agent.Agent, stage agent.StageName) error {
			if stage == agent.StageStorage {
				return &provisioning.Permanent{Code: "volume_cannot_grow", Message: "The volume cannot grow."}
			}
			return nil
		})
		if err := r.Reconcile(t.Context(), w.id); err != nil {
			t.Errorf("Reconcile = %v, want no further delivery", err)
		}
		a := w.record()
		f := a.Failure
		if a.Status != agent.Error || f == nil || f.Code != "volume_cannot_grow" || !a.WorkDueAt.IsZero() {
			t.Errorf("the agent is %s with the failure %+v, due %v; want error and no work", a.Status, f, a.WorkDueAt)
		}
		w.change(act(agent.Start)) // once the operator has changed the class
		w.settle()
		w.wantSize()
	})
}

package provisioning_test

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// overtaken is a cluster in which another worker finishes the agent's work during the first call for a stage. Then that
// call returns err.
func (w *world) overtaken(stage agent.StageName, err error, finish func()) objects {
	first := true
	return w.objectsBefore(func(_ context.Context, _ agent.Agent, called agent.StageName) error {
		if called != stage || !first {
			return nil
		}
		first = false
		finish()
		return err
	})
}

func TestReconcile_WritesNothingAfterAnotherWorkerFinished(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given func(*agent.Agent) // nil for a new agent
		stage agent.StageName    // at which the first worker is overtaken
		err   error
	}{
		"new agent, storage applied":        {stage: agent.StageStorage},
		"new agent, storage fails":          {stage: agent.StageStorage, err: errLost},
		"new agent, ready":                  {stage: agent.StageReady},
		"new agent, watch fails":            {stage: agent.StageReady, err: errLost},
		"new agent, pod fails for good":     {stage: agent.StageReady, err: &provisioning.PodFailure{Permanent: true}},
		"new agent, object rejected":        {stage: agent.StageRoute, err: &provisioning.Permanent{Code: "rejected"}},
		"restarted agent, runtime applied":  {given: act(agent.Restart), stage: agent.StageRuntime},
		"restarted agent, runtime fails":    {given: act(agent.Restart), stage: agent.StageRuntime, err: errLost},
		"restarted agent, pod fails":        {given: act(agent.Restart), stage: agent.StageReady, err: errLost},
		"stopped agent, route applied":      {given: act(agent.Stop), stage: agent.StageRoute},
		"stopped agent, route fails":        {given: act(agent.Stop), stage: agent.StageRoute, err: errLost},
		"stopped agent, scaled down":        {given: act(agent.Stop), stage: agent.StageRuntime},
		"stopped agent, scaling down fails": {given: act(agent.Stop), stage: agent.StageRuntime, err: errLost},
	} {
		inBubble(t, name, func(t *testing.T) {
			w := newWorld(t)
			if c.given != nil {
				w.settle()
				w.change(c.given)
			}
			var finished agent.Agent
			slow := w.reconciler()
			slow.Cluster = w.overtaken(c.stage, c.err, func() {
				w.change(func(a *agent.Agent) { a.Lease = agent.Lease{} }) // it has run out
				if err := w.deliver(); err != nil {
					t.Errorf("the other worker failed: %v", err)
				}
				finished = w.record()
			})
			if err := slow.Reconcile(t.Context(), w.id); err != nil {
				t.Errorf("Reconcile = %v, want nil", err)
			}
			if !finished.Converged() {
				t.Fatal("the other worker did not finish the work")
			}
			if !reflect.DeepEqual(w.record(), finished) {
				t.Errorf("the record became\n%+v, want no change of\n%+v", w.record(), finished)
			}
		})
	}
}

// A worker that knows fewer stages than the record has was rolled back.
func TestReconcile_FinishesAnAgentWithTheStageOfALaterRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		later := agent.Stage{Name: "of_a_later_release", Status: agent.StagePending}
		w.change(func(a *agent.Agent) {
			a.Stages = append(a.Stages, later)
			a.Status, a.ObservedGeneration = agent.Provisioning, a.Generation-1
		})
		must(t, w.reconciler().Reconcile(t.Context(), w.id))
		a := w.record()
		if !settled(a) {
			t.Errorf("status = %s, converged %t, want running and true", a.Status, a.Converged())
		}
		if got := a.Stages[len(a.Stages)-1]; got != later {
			t.Errorf("the unknown stage became %+v, want %+v", got, later)
		}
	})
}

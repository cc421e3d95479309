package provisioning_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

// slowObjects is a cluster that takes a second for each stage, and fails the first calls for the runtime stage.
func (w *world) slowObjects(failures int) objects {
	return w.objectsBefore(func(_ context.Context, _ agent.Agent, stage agent.StageName) error {
		if stage == agent.StageReady {
			return nil
		}
		time.Sleep(time.Second) //nolint:forbidigo // in the bubble's time
		if stage == agent.StageRuntime && failures > 0 {
			failures--
			return fault.New(fault.Unavailable, "refused", "Refused.")
		}
		return nil
	})
}

// Each stage that a change of a running agent runs again has the time of that run, in the same number of writes.
func TestReconcile_RecordsWhenARunningAgentsStagesRanAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*agent.Agent)
		// failures is how many runs fail at the runtime stage.
		failures int
		want     []agent.StageName
	}{
		"restart": {change: act(agent.Restart)},
		"environment": {change: func(a *agent.Agent) {
			value := time.Now().String() // another one each time
			_ = a.Apply(agent.Patch{Env: map[string]*string{"LOG_LEVEL": &value}}, time.Now())
		}},
		"failed once": {
			change: act(agent.Restart), failures: 1,
			want: []agent.StageName{agent.StagePolicy, agent.StageIdentity, agent.StageRoute},
		},
		"repair": {
			change: func(a *agent.Agent) { a.Repair(time.Now()) },
			want: []agent.StageName{
				agent.StageNamespace, agent.StagePolicy, agent.StageIdentity, agent.StageStorage, agent.StageRoute,
			},
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			w := newWorld(t)
			w.settle()
			before := w.record().Stages
			for range 2 {
				time.Sleep(time.Hour) //nolint:forbidigo // in the bubble's time
				w.change(c.change)
				r := w.reconciler()
				r.Cluster = w.slowObjects(c.failures)
				begun, commits := time.Now(), w.database.Commits
				for range c.failures {
					if err := r.Reconcile(t.Context(), w.id); err == nil {
						t.Error("Reconcile = nil, want the failure of the runtime stage")
					}
					time.Sleep(time.Second) //nolint:forbidigo // in the bubble's time
					begun = time.Now()
				}
				if err := r.Reconcile(t.Context(), w.id); err != nil || !settled(w.record()) {
					t.Fatalf("Reconcile = %v, want an agent that runs", err)
				}
				if got, want := w.database.Commits-commits, int64(2*(1+c.failures)); got != want {
					t.Errorf("%d writes of the record, want %d", got, want)
				}
				again := append(c.want, agent.StageSecrets, agent.StageRuntime, agent.StageReady)
				wantTimes(t, w.record().Stages, before, again, begun, 1+c.failures)
			}
		})
	}
}

// wantTimes checks that the stages that ran again began after the given time and took about a second, and that the
// other ones did not change.
func wantTimes(t *testing.T, got, before []agent.Stage, again []agent.StageName, begun time.Time, attempt int) {
	t.Helper()
	ran := map[agent.StageName]bool{}
	for _, name := range again {
		ran[name] = true
	}
	for i, s := range got {
		if !ran[s.Name] {
			if s != before[i] {
				t.Errorf("stage %s = %+v, want no change of %+v", s.Name, s, before[i])
			}
			continue
		}
		want := time.Second
		if s.Name == agent.StageReady {
			want = s.FinishedAt.Sub(s.StartedAt)
		}
		if s.StartedAt.Before(begun) || s.FinishedAt.Sub(s.StartedAt) != want || want < 0 || want > 5*time.Second {
			t.Errorf("stage %s ran from %v to %v, want a second after %v", s.Name, s.StartedAt, s.FinishedAt, begun)
		}
		if s.Status != agent.StageSucceeded || s.Attempt < 1 || s.Attempt > attempt {
			t.Errorf("stage %s is %s with attempt %d, want succeeded with at most %d", s.Name, s.Status, s.Attempt,
				attempt)
		}
	}
}

// A failed stage of a running agent shows the time of the run that failed.
func TestReconcile_RecordsWhenARunningAgentsStageFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		for attempt := 1; attempt <= 2; attempt++ {
			if attempt == 1 {
				time.Sleep(time.Hour) //nolint:forbidigo // in the bubble's time
				w.change(act(agent.Restart))
			}
			r := w.reconciler()
			r.Cluster = w.slowObjects(1)
			begun := time.Now()
			if err := r.Reconcile(t.Context(), w.id); err == nil {
				t.Error("Reconcile = nil, want the failure of the runtime stage")
			}
			s := stageOf(w.record(), agent.StageRuntime)
			if s.Status != agent.StageFailed || s.Attempt != attempt || s.StartedAt.Before(begun) ||
				s.FinishedAt.Sub(s.StartedAt) != time.Second {
				t.Errorf("stage = %+v, want attempt %d that failed a second after its start, later than %v", s,
					attempt, begun)
			}
			time.Sleep(time.Minute) //nolint:forbidigo // in the bubble's time
		}
	})
}

// The stage ready of a running agent covers the wait for its new pod.
func TestReconcile_RecordsHowLongARunningAgentWaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		time.Sleep(time.Hour) //nolint:forbidigo // in the bubble's time
		w.change(act(agent.Restart))
		begun, r := time.Now(), w.reconciler()
		r.Cluster = &pendingCluster{w.objects(), provisioning.PodFailure{Code: notReady, Repairable: true}}
		must(t, r.Reconcile(t.Context(), w.id))
		time.Sleep(40 * time.Second) //nolint:forbidigo // in the bubble's time
		w.settle()
		s := stageOf(w.record(), agent.StageReady)
		if took := s.FinishedAt.Sub(s.StartedAt); !settled(w.record()) || s.Attempt != 1 ||
			s.StartedAt.Before(begun) || took < 40*time.Second || took > time.Minute {
			t.Errorf("stage = %+v, want one attempt that began after %v and took at least 40 s", s, begun)
		}
	})
}

// A new start counts attempts from one, and the stages of an agent that is ready immediately have times, too.
func TestReconcile_RecordsTheStagesOfANewStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		w.change(act(agent.Stop))
		w.settle()
		time.Sleep(time.Hour) //nolint:forbidigo // in the bubble's time
		begun := time.Now()
		w.change(act(agent.Start))
		w.settle()
		for _, s := range w.record().Stages {
			if s.Attempt != 1 || s.StartedAt.Before(begun) || s.FinishedAt.Before(s.StartedAt) {
				t.Errorf("stage = %+v, want attempt 1 that began after %v", s, begun)
			}
		}
	})
}

func stageOf(a agent.Agent, name agent.StageName) agent.Stage {
	for _, s := range a.Stages {
		if s.Name == name {
			return s
		}
	}
	return agent.Stage{}
}

package provisioning_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/simulationtest"
)

// recordingFront is a front that records its orders.
type recordingFront struct {
	name   string
	orders []agent.Order
	known  map[string]agent.CallReport
	// err is what it answers questions with, and hangs makes it never answer.
	err   error
	hangs bool
}

// Calls implements provisioning.CallingFront.
func (f *recordingFront) Calls(ctx context.Context, _ agent.Agent, _ credential.Credentials, _ []string) (
	agent.FrontReport, error,
) {
	if f.hangs {
		<-ctx.Done()
		return agent.FrontReport{}, ctx.Err()
	}
	return agent.FrontReport{Front: f.name, Calls: f.known}, f.err
}

// Order implements provisioning.CallingFront.
func (f *recordingFront) Order(_ context.Context, _ agent.Agent, _ credential.Credentials, o agent.Order) error {
	f.orders = append(f.orders, o)
	return nil
}

// newCalledAgent is a running agent with a schedule that is due each hour. It returns the time until it is.
func newCalledAgent(t *testing.T) (w *world, due time.Duration) {
	t.Helper()
	w = newWorld(t)
	w.settle()
	specs := []agent.ScheduleSpec{{ID: "hourly", Cron: "0 * * * *", Path: "/run"}}
	w.change(func(a *agent.Agent) {
		if err := a.Apply(agent.Patch{Schedules: &specs}, time.Now()); err != nil {
			t.Error(err)
		}
	})
	return w, time.Until(w.record().CallsDueAt)
}

// called delivers a nudge to a worker with a front.
func (w *world) called(f provisioning.CallingFront) {
	w.t.Helper()
	r := w.reconciler()
	r.Front = f
	if err := r.Reconcile(w.t.Context(), w.id); err != nil {
		w.t.Errorf("Reconcile: %v", err)
	}
}

func TestReconcile_CallsAnAgentWhenItsScheduleIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, due := newCalledAgent(t)
		f := &recordingFront{name: "f"}
		time.Sleep(due - time.Second) //nolint:forbidigo // in the bubble's time
		w.called(f)
		if len(f.orders) > 0 {
			t.Fatalf("an agent is called before its time: %+v", f.orders)
		}
		time.Sleep(time.Second) //nolint:forbidigo // in the bubble's time
		w.called(f)
		w.called(f) // late, or twice
		if len(f.orders) != 1 || f.orders[0].Schedule != "hourly" || f.orders[0].Front != "f" {
			t.Fatalf("the front was told %+v, want one call", f.orders)
		}
		f.known = map[string]agent.CallReport{f.orders[0].ID: {Outcome: agent.CallAnswered, Status: 200}}
		time.Sleep(time.Minute) //nolint:forbidigo // in the bubble's time
		w.called(f)
		if s := w.record().Schedules[0]; s.Call.Open() || s.Last.Status != 200 || len(f.orders) != 1 {
			t.Errorf("the record has %+v after %d orders", s, len(f.orders))
		}
	})
}

// dyingFront ends the worker right before its order.
type dyingFront struct{ *recordingFront }

func (dyingFront) Order(context.Context, agent.Agent, credential.Credentials, agent.Order) error {
	return context.Canceled
}

func TestReconcile_RepeatsAnOrderOnlyToTheSameFront(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		next    string
		orders  int
		outcome agent.CallOutcome
	}{
		"the same front": {next: "f", orders: 1},
		"another one":    {next: "g", outcome: agent.CallInterrupted},
	} {
		inBubble(t, name, func(t *testing.T) {
			w, due := newCalledAgent(t)
			time.Sleep(due) //nolint:forbidigo // in the bubble's time
			w.called(dyingFront{&recordingFront{name: "f"}})
			time.Sleep(time.Minute) //nolint:forbidigo // in the bubble's time
			f := &recordingFront{name: row.next}
			w.called(f)
			if s := w.record().Schedules[0]; len(f.orders) != row.orders || s.Last.Outcome != row.outcome {
				t.Errorf("the front was told %+v, and the record has %+v", f.orders, s)
			}
		})
	}
}

func TestReconcile_WaitsForNoFront(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, due := newCalledAgent(t)
		time.Sleep(due) //nolint:forbidigo // in the bubble's time
		begun := time.Now()
		w.called(&recordingFront{hangs: true})
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("Reconcile took %v, want at most 10 s", took)
		}
		if a := w.record(); !a.CallsDueAt.After(time.Now()) || a.Schedules[0].Call.Open() {
			t.Errorf("a front that does not answer is asked again at %v, with %+v", a.CallsDueAt, a.Schedules)
		}
	})
}

func TestReconcile_WakesAnAgentThatSleepsAndCallsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, due := newCalledAgent(t)
		w.change(func(a *agent.Agent) {
			_ = a.Act(agent.Pause, agent.ReasonIdle, time.Now())
			a.Sleep = agent.SleepPolicy{AfterSeconds: 300, WakeOn: []agent.Waker{agent.ScheduleWakes}}
		})
		f := &recordingFront{name: "f"}
		w.called(f)
		if a := w.record(); !a.Asleep() || !a.Converged() {
			t.Fatalf("the agent is %s", a.Status)
		}
		time.Sleep(due) //nolint:forbidigo // in the bubble's time
		for range 10 {
			w.called(f)
			time.Sleep(time.Second) //nolint:forbidigo // in the bubble's time
		}
		if a := w.record(); a.Status != agent.Running || a.WokenBy != agent.WokenBySchedule || len(f.orders) != 1 {
			t.Errorf("the agent is %s, woken by %q, and was called %d times", a.Status, a.WokenBy, len(f.orders))
		}
	})
}

// An agent is looked at when its schedule is due, and once more for the result.
func TestSweep_NudgesAnAgentWhenItsScheduleIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _ := newCalledAgent(t)
		f, published := &recordingFront{name: "f", known: map[string]agent.CallReport{}}, &nudges{}
		s := &provisioning.Sweeper{Records: w.records(), Nudger: published, Now: w.Now}
		for range 24 * 60 {
			time.Sleep(time.Minute) //nolint:forbidigo // in the bubble's time
			before := len(published.ids)
			must(t, s.Sweep(t.Context()))
			if len(published.ids) > before {
				w.called(f)
			}
			for _, o := range f.orders {
				f.known[o.ID] = agent.CallReport{Outcome: agent.CallAnswered, Status: 200}
			}
		}
		if n := len(f.orders); n < 23 || n > 24 {
			t.Errorf("the agent was called %d times in a day, want 24", n)
		}
		if n := len(published.ids); n > 2*24+1 {
			t.Errorf("the sweep nudged the agent %d times in a day, want two for each hour", n)
		}
	})
}

func TestSweep_LeavesAnAgentWithoutDueSchedulesAlone(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*agent.Agent){
		"stopped": act(agent.Stop), "paused": act(agent.Pause),
		"disabled": func(a *agent.Agent) { a.Schedules[0].Disabled = true },
	} {
		synctest.Test(t, func(t *testing.T) {
			w, due := newCalledAgent(t)
			w.change(change)
			w.settle()
			published := &nudges{}
			s := &provisioning.Sweeper{Records: w.records(), Nudger: published, Now: w.Now}
			time.Sleep(due + time.Minute) //nolint:forbidigo // in the bubble's time
			if err := s.Sweep(t.Context()); err != nil || len(published.ids) > 0 {
				t.Errorf("%s: the sweep nudges %v, %v", name, published.ids, err)
			}
		})
	}
}

// callsDown is a store whose list of due schedules fails.
type callsDown struct{ simulationtest.WorkerStore }

func (callsDown) ListCallsDue(context.Context, time.Time, int) ([]agent.Agent, error) {
	return nil, errLost
}

func TestSweep_NudgesOverdueAgentsWhenTheListOfSchedulesFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		published := &nudges{}
		time.Sleep(2 * time.Minute) //nolint:forbidigo // in the bubble's time
		s := &provisioning.Sweeper{Records: callsDown{w.records()}, Nudger: published, Now: w.Now}
		err := s.Sweep(t.Context())
		if err == nil || !slices.Equal(published.ids, []string{w.id}) {
			t.Errorf("the sweep nudges %v, %v", published.ids, err)
		}
	})
}

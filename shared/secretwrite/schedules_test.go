package secretwrite_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/secret"
	"agents.example/controlplane/shared/secretwrite"
)

func (w *world) depositor() secretwrite.Service {
	return secretwrite.Service{Agents: store{w}, Secrets: vault{w}, Now: time.Now, Concurrency: 1}
}

// deliver is one delivery of a nudge. A crash is a delivery without an answer.
func (w *world) deliver() error {
	return survive(func() error {
		return (&provisioning.Reconciler{
			Records: store{w}, Cluster: cluster{w}, Secrets: vault{w}, Prober: cluster{w}, Now: time.Now,
			WatchTimeout: time.Minute,
		}).Reconcile(context.Background(), w.id)
	})
}

func survive(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(crash); !ok {
				panic(p)
			}
			err = errLost
		}
	}()
	return do()
}

var errStuck = errors.New("the work is delivered again and again")

// settle delivers until a delivery is acknowledged, as a queue does.
func (w *world) settle() error {
	for range 60 {
		if w.deliver() == nil {
			return nil
		}
		time.Sleep(time.Second) //nolint:forbidigo // the queue's back-off, in the bubble's time
	}
	return errStuck
}

// newWorld has an agent that runs, with a secret from its creation.
func newWorld(mutant string) (*world, error) {
	a := agent.New("3fa85f64-5717-4562-b3fc-2c963f66afa6", "cell-1", agent.Draft{Name: "a", Plan: "pro"}, time.Now())
	w := &world{id: a.ID, history: map[string]secret.Operation{}, versions: map[string][]version{}, mutant: mutant}
	if _, err := w.depositor().Create(context.Background(), a, map[string]string{"TOKEN": "first"}); err != nil {
		return nil, err
	}
	err := w.settle()
	w.effects = 0
	return w, err
}

func puts(changes map[string]*string) func(context.Context, secretwrite.Service, string) error {
	return func(ctx context.Context, d secretwrite.Service, id string) error {
		_, _, err := d.Put(ctx, id, changes)
		return err
	}
}

func text(s string) *string { return &s }

// wishes is what clients ask for in every schedule, one after the other.
func wishes() []func(context.Context, secretwrite.Service, string) error {
	return []func(context.Context, secretwrite.Service, string) error{
		puts(map[string]*string{"TOKEN": text("second"), "OTHER": text("other")}),
		func(ctx context.Context, d secretwrite.Service, id string) error {
			_, err := d.Rotate(ctx, id)
			return err
		},
		puts(map[string]*string{"TOKEN": text("third"), "OTHER": nil}),
	}
}

// pursue asks for something until it is under way, as a client does that reads what it is told: it reconciles what is
// left open, twice, and asks again where there is nothing to reconcile.
func (w *world) pursue(ask func(context.Context, secretwrite.Service, string) error) error {
	ctx := context.Background()
	for range 12 {
		known := maps.Clone(w.history)
		err := survive(func() error { return ask(ctx, w.depositor(), w.id) })
		switch {
		case err == nil && (w.record == nil || w.underWay(known)):
			return nil
		case err == nil: // only some of it was stored
		case fault.Is(err, fault.NotFound) || fault.Code(err) == "agent_deleting":
			return nil
		case fault.From(err).Kind == fault.Conflict || fault.From(err).Kind == fault.Unavailable:
		default:
			return err
		}
		if w.record == nil {
			return nil
		}
		time.Sleep(secret.StoringTime) //nolint:forbidigo // until nobody can be storing any more, in the bubble's time
		for id := range w.history {
			for range 2 {
				_ = survive(func() error { _, err := w.depositor().Reconcile(ctx, w.id, id); return err })
			}
		}
		if w.underWay(known) {
			return nil
		}
	}
	return errStuck
}

// underWay reports whether there are operations that were not known before, and all of them are past the store.
func (w *world) underWay(known map[string]secret.Operation) bool {
	fresh := 0
	for id, o := range w.history {
		if _, ok := known[id]; ok {
			continue
		}
		if fresh++; o.Stage == secret.Store {
			return false
		}
	}
	return fresh > 0
}

// play carries out a schedule and tells what is wrong with the world then.
func (w *world) play() error {
	for i, ask := range wishes() {
		if err := w.pursue(ask); err != nil {
			return fmt.Errorf("wish %d: %w", i, err)
		}
		if i != 1 { // the worker is slow: it sees the second wish together with the third
			if err := w.settle(); err != nil {
				return fmt.Errorf("after wish %d: %w", i, err)
			}
		}
		if err := w.told(); err != nil {
			return fmt.Errorf("after wish %d: %w", i, err)
		}
	}
	if err := errors.Join(w.settle(), w.settle()); err != nil { // and the same message once more
		return err
	}
	return errors.Join(w.told(), w.tidy())
}

// deletions is how many ways of deleting each pair of troubles is tried with, beside none.
const deletions = 1

// everySchedule ends the process around every outside effect, and around every pair of them, with and without a
// deletion at some step. It answers how many schedules it tried and the first that went wrong.
func everySchedule(mutant string) (schedules int, err error) {
	quiet, err := newWorld(mutant)
	if err == nil {
		err = quiet.play()
	}
	if err != nil {
		return 0, fmt.Errorf("without trouble: %w", err)
	}
	places := quiet.effects * int(modes)
	for first := range places {
		for second := first; second < places+4*int(modes); second++ {
			for d := range 1 + deletions {
				w, err := newWorld(mutant)
				if err != nil {
					return schedules, err
				}
				w.troubles = []trouble{
					{effect: first/int(modes) + 1, mode: mode(first % int(modes))},
					{effect: second/int(modes) + 1, mode: mode(second % int(modes))},
				}
				if d > 0 {
					w.deleteAt = 1 + (first+second*d)%(quiet.effects+3)
				}
				if err := w.play(); err != nil {
					return schedules, fmt.Errorf("troubles %v, deletion at %d: %w", w.troubles, w.deleteAt, err)
				}
				schedules++
			}
		}
	}
	return schedules, nil
}

func TestEveryScheduleConverges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		schedules, err := everySchedule("")
		if err != nil || schedules < 20_000 {
			t.Fatalf("%d schedules: %v", schedules, err)
		}
		t.Logf("%d schedules converge", schedules)
	})
}

// TestTheSuiteFindsPlantedDefects shows that the schedules would find what they are there to find.
func TestTheSuiteFindsPlantedDefects(t *testing.T) {
	t.Parallel()
	for _, mutant := range []string{
		"repeated add", "blind adoption", "early proof", "greedy prune", "unguarded write",
		"torn commit",
	} {
		t.Run(mutant, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				schedules, err := everySchedule(mutant)
				if err == nil {
					t.Fatal("the defect was not found")
				}
				t.Logf("found after %d schedules: %v", schedules, err)
			})
		})
	}
}

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

func (w *simulation) service() secretwrite.Service {
	return secretwrite.Service{Agents: store{w}, Secrets: secretStore{w}, Now: time.Now, Concurrency: 1}
}

// deliver is one delivery of a nudge. A crash is a delivery without an answer.
func (w *simulation) deliver() error {
	return survive(func() error {
		return (&provisioning.Reconciler{
			Records: store{w}, Cluster: cluster{w}, Secrets: secretStore{w}, Prober: cluster{w}, Now: time.Now,
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

// deliverUntilDone delivers until a delivery is acknowledged, as a queue does, and again whenever the sweep nudges,
// until no work is due.
func (w *simulation) deliverUntilDone() error {
	for range 100 {
		wait := time.Second // the queue's back-off
		if w.deliver() == nil {
			if w.record == nil || w.record.WorkDueAt.IsZero() {
				return nil
			}
			wait = time.Until(w.record.WorkDueAt)
		}
		time.Sleep(wait) //nolint:forbidigo // in the bubble's time
	}
	return errStuck
}

// newSimulation has an agent that runs, with a secret from its creation.
func newSimulation(mutant string) (*simulation, error) {
	a := agent.New("3fa85f64-5717-4562-b3fc-2c963f66afa6", "cell-1", agent.Draft{Name: "a", Plan: "pro"}, time.Now())
	w := &simulation{id: a.ID, history: map[string]secret.Operation{}, versions: map[string][]version{}, mutant: mutant}
	if _, err := w.service().Create(context.Background(), a, map[string]string{"TOKEN": "first"}); err != nil {
		return nil, err
	}
	err := w.deliverUntilDone()
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

// requests are the clients' requests of every schedule, in order.
func requests() []func(context.Context, secretwrite.Service, string) error {
	return []func(context.Context, secretwrite.Service, string) error{
		puts(map[string]*string{"TOKEN": text("second"), "OTHER": text("other")}),
		func(ctx context.Context, d secretwrite.Service, id string) error {
			_, err := d.Rotate(ctx, id)
			return err
		},
		puts(map[string]*string{"TOKEN": text("third"), "OTHER": nil}),
	}
}

// sendUntilStored sends a request until its values are stored, as a careful client does: it reconciles the operations
// that stay open, twice, and sends the request again if that fails.
func (w *simulation) sendUntilStored(send func(context.Context, secretwrite.Service, string) error) error {
	ctx := context.Background()
	for range 12 {
		known := maps.Clone(w.history)
		err := survive(func() error { return send(ctx, w.service(), w.id) })
		switch {
		case err == nil && (w.record == nil || w.stored(known)):
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
		time.Sleep(secret.StoringTime) //nolint:forbidigo // until no request can be storing, in the bubble's time
		for id := range w.history {
			for range 2 {
				_ = survive(func() error { _, err := w.service().Reconcile(ctx, w.id, id); return err })
			}
		}
		if w.stored(known) {
			return nil
		}
	}
	return errStuck
}

// stored reports whether there are new operations, all of them past the store stage.
func (w *simulation) stored(known map[string]secret.Operation) bool {
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

// run runs a schedule and returns what is wrong afterwards.
func (w *simulation) run() error {
	for i, ask := range requests() {
		if err := w.sendUntilStored(ask); err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
		if i != 1 { // the worker is slow: it sees the second request together with the third
			if err := w.deliverUntilDone(); err != nil {
				return fmt.Errorf("after request %d: %w", i, err)
			}
		}
		if err := w.checkAlways(); err != nil {
			return fmt.Errorf("after request %d: %w", i, err)
		}
	}
	if err := errors.Join(w.deliverUntilDone(), w.deliverUntilDone()); err != nil { // the second message is a duplicate
		return err
	}
	return errors.Join(w.checkAlways(), w.checkEnd())
}

// deletions is the number of deletion times tried with each pair of troubles, in addition to none.
const deletions = 1

// trySchedules ends the process before or after every outside effect, and every pair of effects, with and without a
// deletion at some step. A step above 1 tries every step-th pair only. It returns the number of schedules tried and the
// first failure.
func trySchedules(mutant string, step int) (schedules int, err error) {
	quiet, err := newSimulation(mutant)
	if err == nil {
		err = quiet.run()
	}
	if err != nil {
		return 0, fmt.Errorf("without trouble: %w", err)
	}
	places := quiet.effects * int(modes)
	for first := range places {
		for second := first; second < places+4*int(modes); second += step {
			for d := range 1 + deletions {
				w, err := newSimulation(mutant)
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
				if err := w.run(); err != nil {
					return schedules, fmt.Errorf("troubles %v, deletion at %d: %w", w.troubles, w.deleteAt, err)
				}
				schedules++
			}
		}
	}
	return schedules, nil
}

func TestService_ConvergesUnderEverySchedule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		step, want := 1, 20_000
		if testing.Short() {
			step, want = 7, 3_000 // 7 is prime to the number of modes, so every mode occurs
		}
		schedules, err := trySchedules("", step)
		if err != nil {
			t.Fatalf("after %d schedules: %v", schedules, err)
		}
		if schedules < want {
			t.Errorf("tried %d schedules, want at least %d", schedules, want)
		}
		t.Logf("%d schedules converge", schedules)
	})
}

// TestSchedules_FindPlantedDefects proves that the schedules detect the defects that they exist for.
func TestSchedules_FindPlantedDefects(t *testing.T) {
	t.Parallel()
	for _, mutant := range []string{
		"repeated add", "blind adoption", "early proof", "greedy prune", "unguarded write",
		"torn commit",
	} {
		t.Run(mutant, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				schedules, err := trySchedules(mutant, 1)
				if err == nil {
					t.Fatalf("no schedule finds the planted defect %q", mutant)
				}
				t.Logf("found after %d schedules: %v", schedules, err)
			})
		})
	}
}

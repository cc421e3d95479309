package webhook_test

import (
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/webhook"
)

func TestSweep_NudgesWhatIsDue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := &webhook.Sweeper{Store: w, Nudger: w, Now: w.clock}
	if err := s.Sweep(t.Context()); err != nil || len(w.nudged) != 0 {
		t.Errorf("nudged %v (%v), want none: no webhook is due", w.nudged, err)
	}
	w.deliver() // a run says when the webhook is due again
	w.wait(14 * time.Minute)
	if err := s.Sweep(t.Context()); err != nil || len(w.nudged) != 0 {
		t.Errorf("nudged %v (%v) after 14 minutes, want none", w.nudged, err)
	}
	// An event whose nudge was lost is delivered with the heartbeat.
	w.happen("a")
	w.wait(time.Minute)
	if err := s.Sweep(t.Context()); err != nil || !slices.Equal(w.nudged, []string{hookID}) {
		t.Errorf("nudged %v (%v) after 15 minutes, want the webhook", w.nudged, err)
	}
	w.deliver()
	w.wantAllInOrder("a")
}

func TestNotifier_NudgesTheOrganizationsEnabledWebhooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := &webhook.Notifier{Store: w, Nudger: w, Now: w.clock}
	n.EventCommitted(t.Context(), "another organization")
	if len(w.nudged) != 0 {
		t.Errorf("nudged %v for another organization", w.nudged)
	}
	n.EventCommitted(t.Context(), org)
	if !slices.Equal(w.nudged, []string{hookID}) {
		t.Errorf("nudged %v, want the webhook", w.nudged)
	}
	w.change(func(r *webhook.Webhook) { r.Disable(webhook.DisabledByRequest) })
	n.EventCommitted(t.Context(), org)
	if len(w.nudged) != 2 {
		t.Error("the look-up was not remembered")
	}
	w.wait(30 * time.Second)
	n.EventCommitted(t.Context(), org)
	if len(w.nudged) != 2 {
		t.Error("a disabled webhook was nudged after 30 seconds")
	}
}

// A process has just learned that an organization has no webhooks, or that its webhook is disabled. It does not nudge
// for the next events, so the sweep must find them.
func TestSweep_FindsTheFirstEventsOfAWebhook(t *testing.T) {
	t.Parallel()
	for name, create := range map[string]bool{"created": true, "enabled": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			n := &webhook.Notifier{Store: w, Nudger: w, Now: w.clock}
			s := &webhook.Sweeper{Store: w, Nudger: w, Now: w.clock}
			w.change(func(r *webhook.Webhook) { r.Disable(webhook.DisabledByRequest) })
			n.EventCommitted(t.Context(), org)
			w.wait(time.Second)
			w.change(func(r *webhook.Webhook) { r.Enable(w.now) })
			if !create { // its creation does not nudge a webhook
				w.deliver()
			}
			runs := 0
			w.beforeUpdate = func(old webhook.Webhook, _ webhook.Done) error {
				if old.LeaseHolder == "" {
					runs++
				}
				return nil
			}
			for second := range 300 {
				if second < 28 { // after that, a process looks again
					w.happen("a")
					n.EventCommitted(t.Context(), org)
				}
				if second%60 == 25 {
					if err := s.Sweep(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if w.takeNudge() {
					w.deliver()
				}
				if waiting := len(w.committedBy("a")) - len(w.takenFrom("a")); waiting > 0 && second > 90 {
					t.Fatalf("%d events wait after %d seconds", waiting, second)
				}
				w.wait(time.Second)
			}
			if runs > 3 {
				t.Errorf("%d runs in five minutes, want one for each sweep of the first one and a half", runs)
			}
		})
	}
}

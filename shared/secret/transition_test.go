package secret_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/secret"
)

// wantMoves is the table of the interface, written a second time: "event action stage" leads to "stage status". An
// absent key is no transition.
func wantMoves() map[string]string {
	return map[string]string{
		"stored set store": "bind pending", "stored rotate store": "bind pending",
		"bound set bind": "sync running", "bound rotate bind": "sync running", "bound delete bind": "sync running",
		"synced set sync": "rollout running", "synced rotate sync": "rollout running",
		"synced delete sync":            "rollout running",
		"waiting_for_start set rollout": "rollout pending", "waiting_for_start rotate rollout": "rollout pending",
		"waiting_for_start delete rollout": "rollout pending",
		"rolled_out set rollout":           "complete running", "rolled_out rotate rollout": "complete running",
		"rolled_out delete rollout": "destroy running",
		"destroyed delete destroy":  "complete running",
		"completed set complete":    "complete succeeded", "completed rotate complete": "complete succeeded",
		"completed delete complete": "complete succeeded",
	}
}

// wantStatuses lists the statuses to which events lead that keep the stage. atStore is true if they are possible at the
// store stage, too.
func wantStatuses() map[secret.Event]struct {
	status  secret.Status
	atStore bool
} {
	return map[secret.Event]struct {
		status  secret.Status
		atStore bool
	}{
		secret.EventRetryScheduled: {status: secret.Pending, atStore: false},
		secret.EventRetried:        {status: secret.Pending, atStore: false},
		secret.EventGaveUp:         {status: secret.Failed, atStore: true},
		secret.EventSuperseded:     {status: secret.Superseded, atStore: true},
		secret.EventCanceled:       {status: secret.Canceled, atStore: true},
	}
}

func events() []secret.Event {
	return []secret.Event{
		secret.EventStored, secret.EventBound, secret.EventSynced, secret.EventWaitingForStart, secret.EventRolledOut,
		secret.EventDestroyed, secret.EventCompleted, secret.EventRetryScheduled,
		secret.EventGaveUp, secret.EventRetried, secret.EventSuperseded, secret.EventCanceled,
	}
}

func TestApply_FollowsTheTableOfTheInterface(t *testing.T) {
	t.Parallel()
	now, cases := time.Now(), 0
	for _, e := range events() {
		for _, action := range secret.Action("").Values() {
			for _, stage := range secret.Stage("").Values() {
				for _, status := range secret.Status("").Values() {
					cases++
					o := secret.Operation{
						Action: secret.Action(action), Stage: secret.Stage(stage),
						Status: secret.Status(status), Attempts: 3,
					}
					before := o
					want := wantMoves()[strings.Join([]string{string(e), action, stage}, " ")]
					if to, ok := wantStatuses()[e]; ok && (to.atStore || stage != "store") {
						want = stage + " " + string(to.status)
					}
					if before.Status.Terminal() {
						want = ""
					}
					moved := o.Apply(e, "code", now)
					got := fmt.Sprint(o.Stage, " ", o.Status)
					switch {
					case moved != (want != ""), moved && got != want:
						t.Errorf("%s of %s at %s %s: moved %t to %q, want %q", e, action, stage, status, moved, got,
							want)
					case !moved && o != before:
						t.Errorf("%s of %s at %s %s: refused, but changed %+v to %+v", e, action, stage, status, before,
							o)
					case moved && o.Stage != before.Stage && o.Attempts != 1, moved && e == secret.EventRetried &&
						o.Attempts != 4:
						t.Errorf("%s of %s at %s: Attempts = %d", e, action, stage, o.Attempts)
					}
				}
			}
		}
	}
	if cases != 12*3*6*6 {
		t.Errorf("checked %d cases, want %d", cases, 12*3*6*6)
	}
}

func TestDue_LeavesStoreAndFailuresToOthers(t *testing.T) {
	t.Parallel()
	for _, stage := range secret.Stage("").Values() {
		for _, status := range secret.Status("").Values() {
			for _, wantsPod := range []bool{true, false} {
				o := secret.Operation{Stage: secret.Stage(stage), Status: secret.Status(status)}
				want := (status == "pending" || status == "running") && stage != "store" &&
					(stage != "rollout" || wantsPod)
				if got := o.Due(wantsPod); got != want {
					t.Errorf("%s %s: Due(%t) = %t, want %t", stage, status, wantsPod, got, want)
				}
			}
		}
	}
}

func TestStoring_EndsWithTimeOrFailure(t *testing.T) {
	t.Parallel()
	now := time.Now()
	o := secret.New(secret.Operation{Action: secret.Set}, now)
	if !o.Storing(now) {
		t.Error("Storing = false for a new operation, want true")
	}
	if o.Storing(now.Add(secret.StoringTime)) {
		t.Error("Storing = true after StoringTime, want false")
	}
	o.Apply(secret.EventGaveUp, "secret_store_denied", now)
	if o.Storing(now) {
		t.Error("Storing = true after a failure, want false")
	}
	d := secret.New(secret.Operation{Action: secret.Delete}, now)
	if d.Stage != secret.Bind {
		t.Errorf("a deletion starts at %s, want %s", d.Stage, secret.Bind)
	}
	if d.Storing(now) {
		t.Error("Storing = true for a deletion, want false")
	}
}

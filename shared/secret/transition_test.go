package secret_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/secret"
)

// moves is what the interface says of every event, written down a second time: for an action and a stage, where the
// event leads. What is not here is no move.
func moves() map[string]string {
	return map[string]string{
		"stored set store": "bind pending", "stored rotate store": "bind pending",
		"bound set bind": "sync running", "bound rotate bind": "sync running", "bound delete bind": "sync running",
		"synced set sync": "rollout running", "synced rotate sync": "rollout running",
		"synced delete sync": "rollout running",
		"parked set rollout": "rollout pending", "parked rotate rollout": "rollout pending",
		"parked delete rollout":  "rollout pending",
		"rolled_out set rollout": "complete running", "rolled_out rotate rollout": "complete running",
		"rolled_out delete rollout": "destroy running",
		"destroyed delete destroy":  "complete running",
		"completed set complete":    "complete succeeded", "completed rotate complete": "complete succeeded",
		"completed delete complete": "complete succeeded",
	}
}

// everywhere is where events lead that leave the stage as it is; true when they are possible at the store, too.
func everywhere() map[secret.Event]struct {
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

func TestEveryMove(t *testing.T) {
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
					want := moves()[strings.Join([]string{string(e), action, stage}, " ")]
					if to, ok := everywhere()[e]; ok && (to.atStore || stage != "store") {
						want = stage + " " + string(to.status)
					}
					if before.Status.Terminal() {
						want = ""
					}
					moved := o.Apply(e, "code", now)
					got := fmt.Sprint(o.Stage, " ", o.Status)
					switch {
					case moved != (want != ""), moved && got != want:
						t.Errorf("%s of %s at %s %s: %t to %s, want %q", e, action, stage, status, moved, got, want)
					case !moved && o != before:
						t.Errorf("%s of %s at %s %s changed something", e, action, stage, status)
					case moved && o.Stage != before.Stage && o.Attempts != 1, moved && e == secret.EventRetried &&
						o.Attempts != 4:
						t.Errorf("%s of %s at %s: attempt %d", e, action, stage, o.Attempts)
					}
				}
			}
		}
	}
	if cases != 12*3*6*6 {
		t.Errorf("%d cases", cases)
	}
}

func TestWhatIsLeftToAWorker(t *testing.T) {
	t.Parallel()
	for _, stage := range secret.Stage("").Values() {
		for _, status := range secret.Status("").Values() {
			for _, runs := range []bool{true, false} {
				o := secret.Operation{Stage: secret.Stage(stage), Status: secret.Status(status)}
				want := (status == "pending" || status == "running") && stage != "store" && (stage != "rollout" || runs)
				if o.Due(runs) != want {
					t.Errorf("%s %s of an agent that runs %t: due %t", stage, status, runs, !want)
				}
			}
		}
	}
}

func TestStoringEndsByItself(t *testing.T) {
	t.Parallel()
	now := time.Now()
	o := secret.New(secret.Operation{Action: secret.Set}, now)
	if !o.Storing(now) || o.Storing(now.Add(secret.StoringTime)) {
		t.Error("a request stores for as long as it may take, and no longer")
	}
	if o.Apply(secret.EventGaveUp, "secret_store_denied", now); o.Storing(now) {
		t.Error("an operation that failed is still being stored")
	}
	if d := secret.New(secret.Operation{Action: secret.Delete}, now); d.Stage != secret.Bind || d.Storing(now) {
		t.Errorf("a deletion begins at %s", d.Stage)
	}
}

package agent_test

import (
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/secret"
)

func TestRotationIsPendingUntilItIsProved(t *testing.T) {
	t.Parallel()
	a := withSecret()
	begin(t, &a, 2, rotate("r"))
	if stored(t, &a, 2, "r", 0); a.RotationPending {
		t.Error("a rotation that brought nothing is pending")
	}
	begin(t, &a, 3, rotate("s"))
	stored(t, &a, 3, "s", 3)
	a.BindSecrets(at(3))
	if !a.RotationPending || a.CredentialVersion != 3 || a.FormerCredential != 1 {
		t.Errorf("pending %t, version %d in place of %d", a.RotationPending, a.CredentialVersion, a.FormerCredential)
	}
	a.MarkSecretsSynced(at(4))
	// The pod broke, and became ready again by itself: nobody has asked it yet what it accepts.
	a.GiveUp(agent.Failure{Code: "pod_crash_loop", Stage: agent.StageReady, Message: "m"}, at(5))
	a.Recover(at(6))
	if a.Status != agent.Running || !a.RotationPending || !a.OperationsDue() || a.WorkDueAt.IsZero() || !a.Rotating() {
		t.Fatalf("%s, pending %t, due %t at %v", a.Status, a.RotationPending, a.OperationsDue(), a.WorkDueAt)
	}
	a.MarkRotated(at(7))
	if a.RotationPending || a.FormerCredential != 0 || a.Operation("s").Stage != secret.Complete {
		t.Errorf("pending %t after the proof, %s", a.RotationPending, standing(a))
	}
}

func TestAnAbandonedOperationWaitsForItsClient(t *testing.T) {
	t.Parallel()
	a := withSecret()
	begin(t, &a, 2, set("a", "A"))
	stored(t, &a, 2, "a", 1)
	a.AbandonOperations(at(3))
	if a.OperationsDue() || !a.WorkDueAt.IsZero() || a.Operation("a").Status != secret.Failed ||
		a.Operation("a").ErrorCode != "internal_error" {
		t.Errorf("due at %v: %s", a.WorkDueAt, standing(a))
	}
	if err := a.RetryOperation("a", at(4)); err != nil || !a.OperationsDue() {
		t.Errorf("retried with %v: %s", err, standing(a))
	}
}

func TestStoringIsRememberedWhenAnAgentIsDeleted(t *testing.T) {
	t.Parallel()
	a := withSecret()
	begin(t, &a, 2, set("a", "A"))
	if err := a.Act(agent.Delete, "", at(2).Add(time.Second)); err != nil ||
		!a.StoringUntil.Equal(at(2).Add(secret.StoringTime)) {
		t.Errorf("storing until %v, %v", a.StoringUntil, err)
	}
	if err := a.RecordStored([]agent.Outcome{{OperationID: "a", Version: 1}},
		at(3)); fault.Code(err) != "agent_deleting" {
		t.Errorf("stored for a deleted agent: %v", err)
	}
}

package agent_test

import (
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/secret"
)

func TestRotation_IsPendingUntilItIsProved(t *testing.T) {
	t.Parallel()
	a := withSecret()
	store(t, &a, 2, 0, rotate("r"))
	if a.RotationPending {
		t.Error("RotationPending = true after a rotation that stored no version, want false")
	}
	store(t, &a, 3, 3, rotate("s"))
	a.BindSecrets(at(3))
	equal(t, "RotationPending after the bind", a.RotationPending, true)
	equal(t, "CredentialVersion after the bind", a.CredentialVersion, 3)
	equal(t, "FormerCredential after the bind", a.FormerCredential, 1)
	a.MarkSecretsSynced(at(4))
	// The pod broke and became ready again without a worker, so no worker has proved which credentials it accepts.
	a.GiveUp(agent.Failure{Code: "pod_crash_loop", Stage: agent.StageReady, Message: "m"}, at(5))
	a.Recover(at(6))
	equal(t, "Status after the recovery", a.Status, agent.Running)
	equal(t, "RotationPending after the recovery", a.RotationPending, true)
	equal(t, "OperationsDue after the recovery", a.OperationsDue(), true)
	equal(t, "WorkDueAt.IsZero after the recovery", a.WorkDueAt.IsZero(), false)
	equal(t, "Rotating after the recovery", a.Rotating(), true)
	a.MarkRotated(at(7))
	equal(t, "RotationPending after the proof", a.RotationPending, false)
	equal(t, "FormerCredential after the proof", a.FormerCredential, 0)
	equal(t, "stage after the proof", a.Operation("s").Stage, secret.Complete)
}

func TestAbandon_WaitsForTheClient(t *testing.T) {
	t.Parallel()
	a := withSecret()
	store(t, &a, 2, 1, set("a", "A"))
	a.Abandon(at(3))
	equal(t, "OperationsDue", a.OperationsDue(), false)
	equal(t, "WorkDueAt", a.WorkDueAt, time.Time{})
	equal(t, "status", a.Operation("a").Status, secret.Failed)
	equal(t, "error code", a.Operation("a").ErrorCode, "internal_error")
	if err := a.RetryOperation("a", at(4)); err != nil {
		t.Errorf("RetryOperation: %v", err)
	}
	equal(t, "OperationsDue after the client's retry", a.OperationsDue(), true)
}

func TestDelete_RecordsUntilWhenRequestsMayStoreValues(t *testing.T) {
	t.Parallel()
	a := withSecret()
	begin(t, &a, 2, set("a", "A"))
	if err := a.Act(agent.Delete, "", at(2).Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	equal(t, "StoringUntil", a.StoringUntil, at(2).Add(secret.StoringTime))
	err := a.RecordStored([]agent.Outcome{{OperationID: "a", Version: 1}}, at(3))
	equal(t, "code of RecordStored's error", fault.Code(err), "agent_deleting")
}

package handoff_test

import (
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/handoff"
)

func deleted() agent.DeletionRecord {
	at := time.Date(2026, 1, 15, 9, 30, 0, 0, time.UTC)
	return agent.DeletionRecord{
		AgentID: "3fa85f64-5717-4562-b3fc-2c963f66afa6", OrganizationID: "org_1", Name: "bot",
		Deletion: agent.Deletion{
			RequestedAt: at, RequestedBy: "user_1", ClusterRequestedAt: at, NamespaceGoneAt: at, VolumeGoneAt: at,
			SecretsRequestedAt: at, SecretsGoneAt: at,
		},
		CompletedAt: at.Add(time.Second),
	}
}

func newReceiptKeys(t *testing.T) (*handoff.Signer, handoff.KeySet) {
	t.Helper()
	private, public := generate(t)
	return handoff.NewSigner(decodeKey(t, private)), decodeKeys(t, public)
}

func TestDeletionReceipt_IsSignedOnceEverythingIsGone(t *testing.T) {
	t.Parallel()
	signer, keys := newReceiptKeys(t)
	receipt, err := signer.DeletionReceipt(deleted(), time.Now())
	if err != nil || receipt == nil {
		t.Fatalf("receipt = %v, %v", receipt, err)
	}
	claims, err := handoff.VerifyReceipt(*receipt, keys)
	if err != nil || claims.OrganizationID != "org_1" || claims.AgentID != deleted().AgentID || !claims.AllGone() {
		t.Errorf("claims = %+v, %v", claims, err)
	}
}

func TestDeletionReceipt_IsNullUntilEverythingIsObservedGone(t *testing.T) {
	t.Parallel()
	signer, _ := newReceiptKeys(t)
	for name, forget := range map[string]func(*agent.DeletionRecord){
		"namespace": func(r *agent.DeletionRecord) { r.NamespaceGoneAt = time.Time{} },
		"volume":    func(r *agent.DeletionRecord) { r.VolumeGoneAt = time.Time{} },
		"secrets":   func(r *agent.DeletionRecord) { r.SecretsGoneAt = time.Time{} },
		"record":    func(r *agent.DeletionRecord) { r.CompletedAt = time.Time{} },
	} {
		r := deleted()
		forget(&r)
		if got, err := signer.DeletionReceipt(r, time.Now()); got != nil || err != nil {
			t.Errorf("%s still exists: receipt %v, %v, want none", name, got, err)
		}
	}
	var none *handoff.Signer
	if got, err := none.DeletionReceipt(deleted(), time.Now()); got != nil || err != nil {
		t.Errorf("without a key: receipt %v, %v, want none", got, err)
	}
}

func decodeKeys(t *testing.T, value string) handoff.KeySet {
	t.Helper()
	keys, err := handoff.ParseKeySet(value)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

package handoff_test

import (
	"encoding/base64"
	"strings"
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
	private, public, err := handoff.Generate()
	if err != nil {
		t.Fatal(err)
	}
	var key handoff.Key
	var keys handoff.KeySet
	if err := key.EnvDecode(private); err != nil {
		t.Fatal(err)
	}
	if err := keys.EnvDecode(public); err != nil {
		t.Fatal(err)
	}
	return handoff.NewSigner(key), keys
}

func TestDeletionReceipt_IsSignedOnceEverythingIsGone(t *testing.T) {
	t.Parallel()
	signer, keys := newReceiptKeys(t)
	_, otherKeys := newReceiptKeys(t)
	receipt, err := signer.DeletionReceipt(deleted(), time.Now())
	if err != nil || receipt == nil {
		t.Fatalf("receipt = %v, %v", receipt, err)
	}
	claims, err := handoff.VerifyReceipt(*receipt, keys)
	if err != nil || claims.OrganizationID != "org_1" || claims.AgentID != deleted().AgentID || !claims.AllGone() {
		t.Errorf("claims = %+v, %v", claims, err)
	}
	parts := strings.Split(*receipt, ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(payload), `"bot"`, `"cat"`, 1)
	parts[1] = base64.RawURLEncoding.EncodeToString([]byte(changed))
	for name, c := range map[string]struct {
		receipt string
		keys    handoff.KeySet
	}{
		"changed": {strings.Join(parts, "."), keys}, "other keys": {*receipt, otherKeys}, "no token": {"x", keys},
	} {
		if got, err := handoff.VerifyReceipt(c.receipt, c.keys); err == nil {
			t.Errorf("%s: verified %+v, want an error", name, got)
		}
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

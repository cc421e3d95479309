package firestore

import (
	"context"
	"slices"
	"testing"

	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
)

// A change writes its call's audit entry in its own commit, and a call without a change leaves the entry to the server.
func TestKeys_EachCommittedChangeHasAnAuditEntry(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org, other := newKeyTenant(t, c), newKeyTenant(t, c)
	k, last := newKey(), apikey.Key{}
	for range maxKeys - 1 {
		last = org.createKey(nil)
	}
	create := func(k apikey.Key) func(context.Context) error {
		return func(ctx context.Context) error { _, err := org.keys.Create(ctx, k); return err }
	}
	revoke := func(id string) func(context.Context) error {
		return func(ctx context.Context) error { return org.keys.Revoke(ctx, id) }
	}
	for _, step := range []struct {
		name     string
		org      keyTenant
		do       func(context.Context) error
		wantCode string
		// wantTarget is the id of the entry's target; empty if the step must not write an entry.
		wantTarget  string
		wantChanges []audit.Change
	}{
		{
			name: "create", org: org, do: create(k), wantCode: "", wantTarget: k.ID,
			wantChanges: []audit.Change{{Field: "role", New: "admin"}},
		},
		{
			name: "create above the limit", org: org, do: create(newKey()), wantCode: "api_key_limit_reached",
			wantTarget: "",
		},
		{
			name: "revoke another organization's key", org: other, do: revoke(k.ID), wantCode: "api_key_not_found",
			wantTarget: "",
		},
		{name: "revoke", org: org, do: revoke(k.ID), wantCode: "", wantTarget: k.ID},
		{name: "revoke again", org: org, do: revoke(k.ID), wantCode: "api_key_not_found", wantTarget: ""},
		{name: "revoke another key", org: org, do: revoke(last.ID), wantCode: "", wantTarget: last.ID},
	} {
		before := len(step.org.Entries())
		ctx, entry := step.org.Call()
		err := step.do(ctx)
		added := step.org.Entries()[before:]
		if got := fault.Code(err); got != step.wantCode {
			t.Errorf("%s: %v, want code %q", step.name, err, step.wantCode)
		}
		if got, want := entry.Written(), step.wantTarget != ""; got != want {
			t.Errorf("%s: Written = %t, want %t", step.name, got, want)
		}
		if step.wantTarget == "" {
			if len(added) != 0 {
				t.Errorf("%s: audit entries = %+v, want none", step.name, added)
			}
			continue
		}
		if len(added) != 1 {
			t.Errorf("%s: audit entries = %+v, want one", step.name, added)
			continue
		}
		checkEntry(t, step.name, added[0], entry.ID(), audit.Target{Type: "api_key", ID: step.wantTarget, Name: "CI"})
		if !slices.Equal(added[0].Changes, step.wantChanges) {
			t.Errorf("%s: changes = %+v, want %+v", step.name, added[0].Changes, step.wantChanges)
		}
	}
}

func checkEntry(t *testing.T, step string, got audit.Entry, wantID string, wantTarget audit.Target) {
	t.Helper()
	if got.ID != wantID {
		t.Errorf("%s: id of the audit entry = %s, want %s", step, got.ID, wantID)
	}
	if got.Target != wantTarget {
		t.Errorf("%s: target = %+v, want %+v", step, got.Target, wantTarget)
	}
	if got.Outcome != audit.Succeeded {
		t.Errorf("%s: outcome = %q, want %q", step, got.Outcome, audit.Succeeded)
	}
	if got.ExpiresAt.IsZero() {
		t.Errorf("%s: ExpiresAt is zero", step)
	}
}

func TestKeys_ChangesOfOneCallShareAnAuditEntry(t *testing.T) {
	t.Parallel()
	org := newKeyTenant(t, open(t, "", Options{}))
	ctx, entry := org.Call()
	k := newKey()
	_, err := org.keys.Create(ctx, k)
	must(t, err)
	must(t, org.keys.Revoke(ctx, k.ID))
	got := org.Entries()
	if len(got) != 1 {
		t.Fatalf("audit entries = %+v, want one", got)
	}
	actor := call.From(ctx).Caller.ID
	if got[0].ID != entry.ID() || got[0].Target.ID != k.ID || got[0].Actor.ID != actor {
		t.Errorf("audit entry = %+v, want id %s, target %s and actor %s", got[0], entry.ID(), k.ID, actor)
	}
}

package apikeytest

import (
	"context"
	"testing"

	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/fault"
)

// entriesOfCalls: a change writes the entry of its call in its own commit, and what changes nothing leaves it to
// whoever serves the call.
func entriesOfCalls(t *testing.T, w World) {
	org, other := w.tenant(t), w.tenant(t)
	k, last := newKey(), apikey.Key{}
	for range most - 1 {
		last = org.create(nil)
	}
	create := func(k apikey.Key) func(context.Context) error {
		return func(ctx context.Context) error { _, err := w.Store.Create(ctx, k); return err }
	}
	revoke := func(id string) func(context.Context) error {
		return func(ctx context.Context) error { return w.Store.Revoke(ctx, id) }
	}
	for _, step := range []struct {
		name string
		org  tenant
		do   func(context.Context) error
		code string
		// target is the one of the entry; empty where the change writes none.
		target string
	}{
		{name: "create", org: org, do: create(k), code: "", target: k.ID},
		{name: "create one too many", org: org, do: create(newKey()), code: "api_key_limit_reached", target: ""},
		{name: "revoke another's", org: other, do: revoke(k.ID), code: "api_key_not_found", target: ""},
		{name: "revoke", org: org, do: revoke(k.ID), code: "", target: k.ID},
		{name: "revoke again", org: org, do: revoke(k.ID), code: "api_key_not_found", target: ""},
		{name: "revoke another one", org: org, do: revoke(last.ID), code: "", target: last.ID},
	} {
		before := len(step.org.entries())
		ctx, trail := audit.WithCallEntry(step.org.ctx)
		err := step.do(ctx)
		added := step.org.entries()[before:]
		if fault.Code(err) != step.code || trail.Written() != (step.target != "") {
			t.Errorf("%s: %v, written %t; want %q", step.name, err, trail.Written(), step.code)
		}
		want := audit.Target{Type: "api_key", ID: step.target, Name: "CI"}
		switch {
		case step.target == "" && len(added) == 0:
		case step.target == "" || len(added) != 1:
			t.Errorf("%s: entries %+v", step.name, added)
		case added[0].ID != trail.ID() || added[0].Target != want || added[0].Outcome != audit.Succeeded ||
			added[0].ExpiresAt.IsZero():
			t.Errorf("%s: the entry %+v, want the id %s and the target %+v", step.name, added[0], trail.ID(), want)
		}
	}
}

// changesOfOneCall: a call that makes two changes has one entry.
func changesOfOneCall(t *testing.T, w World) {
	org := w.tenant(t)
	ctx, trail := audit.WithCallEntry(org.ctx)
	k := newKey()
	if _, err := w.Store.Create(ctx, k); err != nil {
		t.Fatal(err)
	}
	if err := w.Store.Revoke(ctx, k.ID); err != nil {
		t.Fatal(err)
	}
	if got := org.entries(); len(got) != 1 || got[0].ID != trail.ID() || got[0].Target.ID != k.ID ||
		got[0].Actor.ID != "user_1" {
		t.Errorf("entries %+v, want one", got)
	}
}

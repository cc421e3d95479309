package firestore

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/page"
)

// keyTenant is an organization whose keys a test creates and revokes. It has no record before its first key.
type keyTenant struct {
	agenttest.Tenant
	t    *testing.T
	keys *Keys
}

func newKeyTenant(t *testing.T, c *Client) keyTenant {
	t.Helper()
	return keyTenant{agentFixture(c).TenantWithoutRecord(t, "org_"+agenttest.ID()), t, c.Keys()}
}

// asKey makes the context of a request that authenticates with a key.
func asKey(ctx context.Context, k apikey.Key) context.Context {
	caller := call.From(ctx).Caller
	caller.Type, caller.ID = identity.APIKey, k.ID
	return call.As(ctx, caller)
}

// createKey creates a key within the organization's limit, with the changes of edit. It returns the expected record.
func (n keyTenant) createKey(edit func(*apikey.Key)) apikey.Key {
	n.t.Helper()
	k := newKey()
	if edit != nil {
		edit(&k)
	}
	created, err := n.keys.Create(n.Ctx, k)
	must(n.t, err)
	k.OrganizationID = n.ID
	if !reflect.DeepEqual(created, k) {
		n.t.Errorf("Create = %+v, want %+v", created, k)
	}
	return k
}

// createKeyWith creates a key with another one, as a route does.
func (n keyTenant) createKeyWith(parent apikey.Key) apikey.Key {
	n.t.Helper()
	k := newKey()
	k.CreatedBy = parent.ID
	created, err := n.keys.Create(asKey(n.Ctx, parent), k)
	must(n.t, err)
	return created
}

// revokeKey revokes a key that exists.
func (n keyTenant) revokeKey(id string) {
	n.t.Helper()
	must(n.t, n.keys.Revoke(n.Ctx, id))
}

// listKeys lists all pages.
func (n keyTenant) listKeys(limit int) []apikey.Key {
	n.t.Helper()
	var all []apikey.Key
	for cursor := ""; ; {
		p, err := n.keys.List(n.Ctx, page.Request{Limit: limit, Cursor: cursor})
		must(n.t, err)
		all = append(all, p.Items...)
		if cursor = p.Next; cursor == "" {
			return all
		}
	}
}

// wantKeys checks the number of keys in the list and in the organization's recorded usage.
func (n keyTenant) wantKeys(want int) {
	n.t.Helper()
	if got := len(n.listKeys(100)); got != want {
		n.t.Errorf("%d keys listed, want %d", got, want)
	}
	n.wantUsage(want)
}

// wantUsage checks the number of keys in the organization's recorded usage.
func (n keyTenant) wantUsage(want int) {
	n.t.Helper()
	if got := n.Usage().APIKeys; got != int64(want) {
		n.t.Errorf("the organization counts %d keys, want %d", got, want)
	}
}

// live returns the ids of those of the keys that are found.
func (n keyTenant) live(keys ...apikey.Key) []string {
	n.t.Helper()
	var ids []string
	for _, k := range keys {
		found, _, err := n.keys.Find(n.Ctx, k.Hash, document.Ref{})
		switch {
		case err == nil:
			ids = append(ids, found.ID)
		case !fault.Is(err, fault.NotFound):
			n.t.Errorf("find the key %s: %v", k.ID, err)
		}
	}
	return ids
}

// auditedActions returns the organization's audit entries as text, such as "TestAgent api_key <id> succeeded".
func (n keyTenant) auditedActions() []string {
	n.t.Helper()
	entries := n.Entries()
	actions := make([]string, len(entries))
	for i, e := range entries {
		actions[i] = fmt.Sprint(e.Action, " ", e.Target.Type, " ", e.Target.ID, " ", e.Outcome)
	}
	return actions
}

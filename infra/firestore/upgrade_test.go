package firestore

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/page"
)

// Functions of different ages work on the same documents. testdata/documents holds documents as they were stored once,
// or may be stored later; none of its files is ever changed.

const (
	fixtureOrganization = "org_old"
	fixtureAgent        = "3fa85f64-5717-4562-b3fc-2c963f66afa6"
)

// replay writes a fixture's documents as they stand there.
func replay(t *testing.T, c *Client, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var fixture struct {
		Documents map[string]map[string]any
	}
	if err := json.Unmarshal(b, &fixture); err != nil {
		t.Fatal(err)
	}
	for path, doc := range fixture.Documents {
		if _, err := c.db.Doc(path).Set(t.Context(), stored(t, doc)); err != nil {
			t.Fatal(err)
		}
	}
}

// stored is a JSON value as Firestore has it: whole numbers, and times written as {"$time": "..."}.
func stored(t *testing.T, v any) any {
	t.Helper()
	switch v := v.(type) {
	case float64:
		return int64(v)
	case []any:
		for i := range v {
			v[i] = stored(t, v[i])
		}
		return v
	case map[string]any:
		if text, ok := v["$time"].(string); ok {
			at, err := time.Parse(time.RFC3339, text)
			if err != nil {
				t.Fatal(err)
			}
			return at
		}
		for k := range v {
			v[k] = stored(t, v[k])
		}
		return v
	default:
		return v
	}
}

// TestDocumentsOfOtherReleases reads what other releases wrote, in every way that functions read, changes it, and finds
// everything that is not known here where it was.
func TestDocumentsOfOtherReleases(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/documents/*.json")
	if err != nil || len(files) < 2 {
		t.Fatalf("fixtures %v: %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			c := open(t, "", Options{})
			replay(t, c, file)
			ctx := identity.With(t.Context(), identity.Caller{
				Type: identity.APIKey, ID: "k", OrganizationID: fixtureOrganization, Role: identity.RoleAdmin,
			})
			readAll(ctx, t, c)
			before := storedAgent(ctx, t, c)
			changed, err := c.Agents(&agenttest.Nudges{}).Change(ctx, fixtureAgent, func(a *agent.Agent) error {
				return a.Act(agent.Stop, agent.Manual, time.Now())
			})
			if err != nil || changed.Status != agent.Stopped {
				t.Fatalf("stop: %s, %v", changed.Status, err)
			}
			after := storedAgent(ctx, t, c)
			for name := range before {
				if _, known := known()[name]; !known && !equalJSON(before[name], after[name]) {
					t.Errorf("a change has lost the field %s: %v became %v", name, before[name], after[name])
				}
			}
			if _, err := c.Directory().Organization(ctx, fixtureOrganization); err != nil {
				t.Errorf("the organization after a change: %v", err)
			}
		})
	}
}

// readAll reads the fixture's documents as routes and workers do.
func readAll(ctx context.Context, t *testing.T, c *Client) {
	t.Helper()
	agents, all := c.Agents(&agenttest.Nudges{}), page.Request{Limit: page.MaxLimit}
	a, err := agents.Get(ctx, fixtureAgent)
	if err != nil || a.Status != agent.Running || a.Generation != 3 || len(a.Env) == 0 || a.Env[0].Value != "1" ||
		a.CreatedAt.IsZero() {
		t.Fatalf("get: %+v, %v", a, err)
	}
	if _, err := json.Marshal(a.Show(identity.From(ctx), agent.Addresses{Domain: "d", Scheme: "https"})); err != nil {
		t.Errorf("show: %v", err)
	}
	if list, err := agents.List(ctx, agent.Filter{}, all); err != nil || len(list.Items) == 0 {
		t.Errorf("list: %d agents, %v", len(list.Items), err)
	}
	if _, err := c.WorkerStore().Load(ctx, fixtureAgent); err != nil {
		t.Errorf("load: %v", err)
	}
	if _, err := c.WorkerStore().ListDue(ctx, time.Now(), 10); err != nil {
		t.Errorf("due: %v", err)
	}
	if _, key, err := c.Keys().Find(ctx, "old-hash", document.Ref{}); err != nil ||
		key.OrganizationID != fixtureOrganization {
		t.Errorf("find: %+v, %v", key, err)
	}
	if keys, err := c.Keys().List(ctx, all); err != nil || len(keys.Items) != 1 {
		t.Errorf("list keys: %+v, %v", keys, err)
	}
	if o, err := c.Directory().Organization(ctx, fixtureOrganization); err != nil || o.Usage.Agents != 1 {
		t.Errorf("organization: %+v, %v", o, err)
	}
	if entries, err := c.AuditLog().List(ctx, audit.Filter{}, all); err != nil || len(entries.Items) != 1 {
		t.Errorf("audit log: %+v, %v", entries, err)
	}
}

// storedAgent is the fixture's agent as it is stored.
func storedAgent(ctx context.Context, t *testing.T, c *Client) map[string]any {
	t.Helper()
	snap, err := c.db.Collection(agentCollection).Doc(fixtureAgent).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return snap.Data()
}

// known are the fields of an agent's document that this release writes.
func known() map[string]any {
	written := map[string]any{}
	for name := range encodeAgent(agent.Agent{}, "") {
		written[name] = true
	}
	return written
}

func equalJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && slices.Equal(x, y)
}

// TestFieldsHaveZeroValues reads an agent's document from which each field is missing in turn: a field that a release
// adds is missing in all that older ones wrote.
func TestFieldsHaveZeroValues(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	replay(t, c, "testdata/documents/2026-11-first.json")
	ctx := identity.With(t.Context(),
		identity.Caller{Type: identity.APIKey, ID: "k", OrganizationID: fixtureOrganization, Role: identity.RoleAdmin})
	whole := storedAgent(ctx, t, c)
	for name := range known() {
		if name == "organization_id" {
			continue // without it the agent is nobody's
		}
		part := maps.Clone(whole)
		delete(part, name)
		if _, err := c.db.Collection(agentCollection).Doc(fixtureAgent).Set(ctx, part); err != nil {
			t.Fatal(err)
		}
		a, err := c.Agents(&agenttest.Nudges{}).Get(ctx, fixtureAgent)
		if err != nil {
			t.Errorf("without %s: %v", name, err)
			continue
		}
		if _, err := json.Marshal(a.Show(identity.From(ctx),
			agent.Addresses{Domain: "d", Scheme: "https"})); err != nil {
			t.Errorf("without %s it can't be shown: %v", name, err)
		}
	}
}

package firestore

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/role"
)

// Functions of different releases work on the same documents. testdata/documents holds documents as former releases
// stored them, or as later releases may. Never change its files.

const (
	fixtureOrganization = "org_old"
	fixtureAgent        = "3fa85f64-5717-4562-b3fc-2c963f66afa6"
)

// fixtureContext is the context of a caller in the fixture's organization.
func fixtureContext(t *testing.T) context.Context {
	return call.As(t.Context(), identity.Caller{
		Type: identity.APIKey, ID: "k", OrganizationID: fixtureOrganization, Role: identity.RoleAdmin,
	})
}

// storeFixture writes the documents of a file.
func storeFixture(t *testing.T, c *Client, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	must(t, err)
	var fixture struct {
		Documents map[string]map[string]any
	}
	must(t, json.Unmarshal(b, &fixture))
	for path, doc := range fixture.Documents {
		_, err := c.db.Doc(path).Set(t.Context(), fromJSON(t, doc))
		must(t, err)
	}
}

// fromJSON converts a JSON value to Firestore's types: whole numbers, other numbers, which are written as
// {"$float": 1.5}, and times, as {"$time": "..."}.
func fromJSON(t *testing.T, v any) any {
	t.Helper()
	switch v := v.(type) {
	case float64:
		return int64(v)
	case []any:
		for i := range v {
			v[i] = fromJSON(t, v[i])
		}
		return v
	case map[string]any:
		if s, ok := v["$time"].(string); ok {
			at, err := time.Parse(time.RFC3339, s)
			must(t, err)
			return at
		}
		if f, ok := v["$float"].(float64); ok {
			return f
		}
		for k := range v {
			v[k] = fromJSON(t, v[k])
		}
		return v
	default:
		return v
	}
}

// TestDocumentsOfOtherReleases reads what other releases wrote through every store. Then it changes the agent, which
// must keep all unknown fields.
func TestDocumentsOfOtherReleases(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/documents/*.json")
	must(t, err)
	if len(files) < 2 {
		t.Fatalf("fixtures %v, want at least 2", files)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			c := open(t, "", Options{})
			storeFixture(t, c, file)
			ctx := fixtureContext(t)
			checkAgentReads(ctx, t, c)
			checkOtherReads(ctx, t, c)
			checkKeyRole(t, c, filepath.Base(file))
			before := readFixtureAgent(ctx, t, c)
			changed, err := c.Agents(&agenttest.Nudges{}).Change(ctx, fixtureAgent, func(a *agent.Agent) error {
				return a.Act(agent.Stop, agent.Manual, time.Now())
			})
			must(t, err)
			if changed.Status != agent.Stopped {
				t.Errorf("status %s, want %s", changed.Status, agent.Stopped)
			}
			after, known := readFixtureAgent(ctx, t, c), encodeAgent(agent.Agent{}, "")
			for name := range before {
				if _, ok := known[name]; !ok && !equalJSON(before[name], after[name]) {
					t.Errorf("the change made the unknown field %s %v, want %v", name, after[name], before[name])
				}
			}
			if _, err := c.Directory().Organization(ctx, fixtureOrganization); err != nil {
				t.Errorf("organization after the change: %v", err)
			}
		})
	}
}

// checkAgentReads reads the fixture's agent as routes and workers do.
func checkAgentReads(ctx context.Context, t *testing.T, c *Client) {
	t.Helper()
	agents := c.Agents(&agenttest.Nudges{})
	a, err := agents.Get(ctx, fixtureAgent)
	must(t, err)
	if a.Status != agent.Running {
		t.Errorf("status %s, want %s", a.Status, agent.Running)
	}
	if a.Generation != 3 {
		t.Errorf("generation %d, want 3", a.Generation)
	}
	if len(a.Env) == 0 || a.Env[0].Value != "1" {
		t.Errorf("env %+v, want a first value of 1", a.Env)
	}
	if a.CreatedAt.IsZero() {
		t.Error("created_at is zero")
	}
	if !a.RetryAt.IsZero() || a.Failure != nil && a.Failure.Outage {
		t.Errorf("retry at %v, failure %+v, want no wait and no outage", a.RetryAt, a.Failure)
	}
	checkShown(ctx, t, a)
	if list, err := agents.List(ctx, agent.Filter{}, page.Request{}); err != nil || len(list.Items) == 0 {
		t.Errorf("listed %d agents (%v), want some", len(list.Items), err)
	}
	if _, err := c.WorkerStore().Load(ctx, fixtureAgent); err != nil {
		t.Errorf("load: %v", err)
	}
	if _, err := c.WorkerStore().ListDue(ctx, time.Now(), 10); err != nil {
		t.Errorf("list due agents: %v", err)
	}
}

// checkShown checks that clients can be shown the agent.
func checkShown(ctx context.Context, t *testing.T, a agent.Agent) {
	t.Helper()
	shown := a.Show(call.From(ctx).Caller, agent.Addresses{Domain: "d", Scheme: "https"})
	if _, err := json.Marshal(shown); err != nil {
		t.Errorf("show the agent: %v", err)
	}
}

// checkOtherReads reads the fixture's other documents.
func checkOtherReads(ctx context.Context, t *testing.T, c *Client) {
	t.Helper()
	key, _, err := c.Keys().Find(ctx, "old-hash", document.Ref{})
	if err != nil || key.OrganizationID != fixtureOrganization {
		t.Errorf("found the key %+v (%v), want one of %s", key, err, fixtureOrganization)
	}
	if keys, err := c.Keys().List(ctx, page.Request{}); err != nil || len(keys.Items) != 1 {
		t.Errorf("listed the keys %+v (%v), want 1", keys, err)
	}
	if o, err := c.Directory().Organization(ctx, fixtureOrganization); err != nil || o.Usage.Agents != 1 {
		t.Errorf("organization %+v (%v), want one agent", o, err)
	}
	if entries, err := c.AuditLog().List(ctx, audit.Filter{}, page.Request{}); err != nil || len(entries.Items) != 1 {
		t.Errorf("listed the audit entries %+v (%v), want 1", entries, err)
	}
}

// checkKeyRole checks that a key of a release without roles is an admin's.
func checkKeyRole(t *testing.T, c *Client, file string) {
	t.Helper()
	want := role.Admin
	if file == "2026-11-key-roles.json" {
		want = role.Member
	}
	if key, _, err := c.Keys().Find(t.Context(), "old-hash", document.Ref{}); err != nil || key.Role != want {
		t.Errorf("the key has the role %q (%v), want %s", key.Role, err, want)
	}
}

// readFixtureAgent reads the document of the fixture's agent.
func readFixtureAgent(ctx context.Context, t *testing.T, c *Client) map[string]any {
	t.Helper()
	snap, err := c.db.Collection(agentCollection).Doc(fixtureAgent).Get(ctx)
	must(t, err)
	return snap.Data()
}

func equalJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && slices.Equal(x, y)
}

// TestGet_AcceptsMissingFields reads an agent's document without each of its fields in turn. A field that a release
// adds is missing in all documents that older releases wrote.
func TestGet_AcceptsMissingFields(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	storeFixture(t, c, "testdata/documents/2026-11-first.json")
	ctx := fixtureContext(t)
	complete := readFixtureAgent(ctx, t, c)
	for name := range encodeAgent(agent.Agent{}, "") {
		if name == "organization_id" {
			continue // an agent without it belongs to no caller
		}
		t.Run("without "+name, func(t *testing.T) {
			part := maps.Clone(complete)
			delete(part, name)
			_, err := c.db.Collection(agentCollection).Doc(fixtureAgent).Set(ctx, part)
			must(t, err)
			a, err := c.Agents(&agenttest.Nudges{}).Get(ctx, fixtureAgent)
			must(t, err)
			checkShown(ctx, t, a)
		})
	}
}

// toJSON is the inverse of fromJSON.
func toJSON(v any) any {
	switch v := v.(type) {
	case float64:
		return map[string]any{"$float": v}
	case time.Time:
		return map[string]any{"$time": v.Format(time.RFC3339Nano)}
	case []any:
		items := make([]any, len(v))
		for i := range v {
			items[i] = toJSON(v[i])
		}
		return items
	case map[string]any:
		doc := map[string]any{}
		for name := range v {
			doc[name] = toJSON(v[name])
		}
		return doc
	default:
		return v
	}
}

// missing lists the members of a value that another one lacks or has with other contents. An element of a list is named
// by its index.
func missing(path string, of, in any) (paths []string) {
	switch of := of.(type) {
	case map[string]any:
		m, ok := in.(map[string]any)
		for name := range of {
			if !ok || of[name] != nil && m[name] == nil {
				paths = append(paths, path+"."+name)
				continue
			}
			paths = append(paths, missing(path+"."+name, of[name], m[name])...)
		}
	case []any:
		list, _ := in.([]any)
		for i := range of {
			if i >= len(list) {
				return append(paths, fmt.Sprintf("%s[%d]", path, i))
			}
			paths = append(paths, missing(fmt.Sprintf("%s[%d]", path, i), of[i], list[i])...)
		}
	default:
		if !reflect.DeepEqual(of, in) {
			paths = append(paths, path)
		}
	}
	return paths
}

// withNew returns a stored value with the members that only a newer one has, and their paths.
func withNew(path string, stored, newer any) (merged any, added []string) {
	switch newer := newer.(type) {
	case nil:
		return stored, nil
	case map[string]any:
		if m, ok := stored.(map[string]any); ok {
			m = maps.Clone(m)
			for name := range newer {
				var some []string
				m[name], some = withNew(path+"."+name, m[name], newer[name])
				added = append(added, some...)
			}
			return m, added
		}
	case []any:
		if list, ok := stored.([]any); ok {
			list = slices.Clone(list)
			for i := range min(len(list), len(newer)) {
				var some []string
				list[i], some = withNew(fmt.Sprintf("%s[%d]", path, i), list[i], newer[i])
				added = append(added, some...)
			}
			return list, added
		}
	}
	if stored != nil {
		return stored, nil
	}
	return newer, []string{path}
}

// TestStoredDocuments_ReadAsTheyWereWritten reads testdata/stored_documents.json, which has a document of each
// collection with all fields at every depth, and writes it again: each release must keep what the former ones stored.
// New fields are added to the file, and none is changed.
func TestStoredDocuments_ReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	const file = "testdata/stored_documents.json"
	b, err := os.ReadFile(file)
	must(t, err)
	var stored map[string]any
	must(t, json.Unmarshal(b, &stored))
	for collection, r := range storedRecords() {
		given := fromJSON(t, stored[collection])
		written, _ := given.(map[string]any)
		rest, err := r.fields.decode(inMap(written))
		must(t, err)
		if lost := missing(collection, written, r.fields.encodeWith(rest)); len(lost) > 0 {
			t.Errorf("documents of other releases have %q, which is lost or changed", lost)
		}
		complete := storedRecords()[collection]
		fill(reflect.ValueOf(complete.record).Elem())
		merged, added := withNew(collection, given, complete.fields.encode())
		if stored[collection] = toJSON(merged); len(added) > 0 && !*update {
			t.Errorf("%s lacks the new fields %q: run %s", file, added, howToUpdate)
		}
	}
	if *update {
		b, err := json.MarshalIndent(stored, "", "\t")
		must(t, err)
		must(t, os.WriteFile(file, append(b, '\n'), 0o600))
	}
}

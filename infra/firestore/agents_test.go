package firestore

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	gcp "cloud.google.com/go/firestore"
	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
)

// TestGet_UsesTheDocumentFetchedWithTheKey: such a document is not read again, and is checked as any other.
func TestGet_UsesTheDocumentFetchedWithTheKey(t *testing.T) {
	t.Parallel()
	recorder := &callRecorder{}
	c := open(t, "", Options{Observe: recorder.observe})
	w := agentFixture(c)
	org, other := w.Tenant(t, plan.Pro), w.Tenant(t, plan.Pro)
	a, b := org.Create(plan.Hobby), org.Create(plan.Hobby)
	key, absent := newKey(), agenttest.ID()
	_, err := c.Keys().Create(org.Ctx, key)
	must(t, err)
	for name, row := range map[string]struct {
		fetched, requested string
		caller             agenttest.Tenant
		wantCalls          string
		wantFound          bool
	}{
		"the fetched agent":      {fetched: a.ID, requested: a.ID, caller: org, wantCalls: "", wantFound: true},
		"another agent":          {fetched: b.ID, requested: a.ID, caller: org, wantCalls: "read", wantFound: true},
		"another organization's": {fetched: a.ID, requested: a.ID, caller: other, wantCalls: "", wantFound: false},
		"an absent agent":        {fetched: absent, requested: absent, caller: org, wantCalls: "", wantFound: false},
		"an invalid id":          {fetched: "a/b", requested: "a/b", caller: org, wantCalls: "", wantFound: false},
		"no document fetched":    {fetched: "", requested: a.ID, caller: org, wantCalls: "read", wantFound: true},
		"an id in capitals": {
			fetched: a.ID, requested: strings.ToUpper(a.ID), caller: org, wantCalls: "", wantFound: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := fetchedWithKey(row.caller.Ctx, t, c, key, document.Ref{Collection: agentCollection, ID: row.fetched})
			var err error
			var got agent.Agent
			calls := recorder.during(func() { got, err = w.Store.Get(ctx, row.requested) })
			if calls != row.wantCalls {
				t.Errorf("calls %q, want %q", calls, row.wantCalls)
			}
			if !row.wantFound {
				if !reflect.DeepEqual(fault.From(err), agent.NotFound()) {
					t.Errorf("error %v, want NotFound", err)
				}
				return
			}
			must(t, err)
			if !reflect.DeepEqual(got, a) {
				t.Errorf("got %+v, want %+v", got, a)
			}
		})
	}
}

func TestChange_ReadsTheAgentAgain(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	w := agentFixture(c)
	org := w.Tenant(t, plan.Pro)
	a, key := org.Create(plan.Hobby), newKey()
	_, err := c.Keys().Create(org.Ctx, key)
	must(t, err)
	ctx := fetchedWithKey(org.Ctx, t, c, key, document.Ref{Collection: agentCollection, ID: a.ID})
	_, err = w.Store.Change(org.Ctx, a.ID, stop)
	must(t, err)
	got, err := w.Store.Change(ctx, a.ID, changeNothing)
	must(t, err)
	if got.Status != agent.Stopped {
		t.Errorf("the change saw status %s, want %s", got.Status, agent.Stopped)
	}
}

// TestChange_AnswersWithItsOwnCommit loses the answer to a change. Before the client reads the agent again, others
// write it.
func TestChange_AnswersWithItsOwnCommit(t *testing.T) {
	t.Parallel()
	for name, follow := range map[string]func(c *Client, ctx context.Context, a agent.Agent) error{
		"nothing followed": func(*Client, context.Context, agent.Agent) error { return nil },
		"deleted and removed": func(c *Client, ctx context.Context, a agent.Agent) error {
			a, err := c.Agents(nil).Change(ctx, a.ID, func(a *agent.Agent) error {
				return a.Act(agent.Delete, agent.Manual, agenttest.Now())
			})
			return errors.Join(err, c.WorkerStore().Remove(ctx, a, agent.Deletion{}))
		},
		"changed by a worker": func(c *Client, ctx context.Context, a agent.Agent) error {
			_, err := c.WorkerStore().Update(ctx, a, func(a *agent.Agent) { a.Attempts++ })
			return err
		},
		"changed by a client": func(c *Client, ctx context.Context, a agent.Agent) error {
			_, err := c.Agents(nil).Change(ctx, a.ID, func(a *agent.Agent) error { a.Name = "other"; return nil })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			project := "test-" + uuid.NewString()
			c := open(t, project, Options{})
			x := newTenantFixture(t, c)
			var committed agent.Agent
			loseAnswer := aroundCommits(func(commit func() error) error {
				err := commit()
				if committed.ID != "" {
					return err
				}
				must(t, err)
				committed = x.loadAgent(t)
				must(t, follow(c, x.org.Ctx, committed))
				return status.Error(codes.Unavailable, "the answer is lost")
			})
			lossy := open(t, project, Options{DialOptions: []grpc.DialOption{loseAnswer}})
			got, err := lossy.Agents(&agenttest.Nudges{}).Change(x.org.Ctx, x.agent.ID, stop)
			must(t, err)
			if got.ID != committed.ID || got.Status != agent.Stopped || got.Name != committed.Name ||
				got.Version != committed.Version {
				t.Errorf("Change = %s %q, version %s; want %s %q, version %s", got.Status, got.Name, got.Version,
					committed.Status, committed.Name, committed.Version)
			}
		})
	}
}

// TestChange_KeepsUnknownFields: functions of different releases work on the same documents.
func TestChange_KeepsUnknownFields(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	w := agentFixture(c)
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Hobby)
	ref, _ := c.ref(agentCollection, a.ID)
	_, err := ref.Update(t.Context(), []gcp.Update{
		{Path: "of_the_future", Value: "kept"},
		{Path: "rollout", Value: gcp.Delete},
		{Path: "env", Value: gcp.Delete},
		{Path: "failure", Value: nil},
	})
	must(t, err)
	changed, err := w.Store.Change(org.Ctx, a.ID, func(a *agent.Agent) error {
		if a.Rollout != 0 {
			t.Errorf("a missing rollout was read as %d, want 0", a.Rollout)
		}
		if a.Env != nil {
			t.Errorf("a missing env was read as %v, want nil", a.Env)
		}
		return restart(a)
	})
	must(t, err)
	_, err = w.Records.Update(t.Context(), changed, func(a *agent.Agent) { a.Attempts++ })
	must(t, err)
	snap, err := ref.Get(t.Context())
	must(t, err)
	if got := snap.Data()["of_the_future"]; got != "kept" {
		t.Errorf("of_the_future = %v, want kept", got)
	}
	if got := snap.Data()["rollout"]; got != int64(1) {
		t.Errorf("rollout = %v, want 1", got)
	}
}

// TestLoad_RefusesMalformedFields: such a document must not be read as an agent with zero values.
func TestLoad_RefusesMalformedFields(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org := agentFixture(c).Tenant(t, plan.Enterprise)
	for name, row := range map[string]struct {
		field string
		value any
	}{
		"text as a number":         {field: "rollout", value: "1"},
		"a fraction as a number":   {field: "rollout", value: 1.5},
		"a number as text":         {field: "status", value: 1},
		"text as a time":           {field: "created_at", value: "today"},
		"a number as a time":       {field: "work_due_at", value: 5},
		"text as an array":         {field: "env", value: "none"},
		"text in an array of maps": {field: "stages", value: []any{"ready"}},
		"a malformed map":          {field: "failure", value: map[string]any{"code": 7}},
		"a malformed array item":   {field: "env", value: []any{map[string]any{"key": 1}}},
	} {
		a := org.Create(plan.Hobby)
		ref, _ := c.agent(a.ID)
		_, err := ref.Update(t.Context(), []gcp.Update{{Path: row.field, Value: row.value}})
		must(t, err)
		if got, err := c.WorkerStore().Load(t.Context(), a.ID); err == nil {
			t.Errorf("%s: %s = %v was read as %+v", name, row.field, row.value, got)
		}
	}
}

// TestLists_LeaveOutUnreadableAgents: every second record can't be decoded, so that pages are short, and one is empty.
func TestLists_LeaveOutUnreadableAgents(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org := agentFixture(c).Tenant(t, plan.Enterprise)
	var all, readable []string
	var status agent.Status
	for i := range 8 {
		a := org.Create(plan.Hobby)
		status, all = a.Status, append(all, a.ID)
		if i%2 == 0 || i == 3 {
			ref, _ := c.agent(a.ID)
			_, err := ref.Update(t.Context(), []gcp.Update{{Path: "env", Value: "none"}})
			must(t, err)
			continue
		}
		readable = append(readable, a.ID)
	}
	slices.Sort(readable)
	sorted := func(agents []agent.Agent) []string {
		ids := []string{}
		for _, a := range agents {
			ids = append(ids, a.ID)
		}
		slices.Sort(ids)
		return ids
	}

	due, err := c.WorkerStore().ListDue(t.Context(), agenttest.Now().Add(time.Hour), len(readable))
	must(t, err)
	if got := sorted(due); !slices.Equal(got, readable) {
		t.Errorf("ListDue = %v, want %v", got, readable)
	}

	var walked []agent.Agent
	pages := 0
	for after := ""; pages == 0 || after != ""; pages++ {
		p, err := c.WorkerStore().ListByStatus(t.Context(), status, after, 1)
		must(t, err)
		walked, after = append(walked, p.Items...), p.Next
	}
	if got := sorted(walked); !slices.Equal(got, readable) || pages < len(all) {
		t.Errorf("ListByStatus in %d pages = %v, want %v in %d or more", pages, got, readable, len(all))
	}

	var shown []agent.Agent
	for p := (page.Request{Limit: 2}); ; {
		listed, err := c.Agents(nil).List(org.Ctx, agent.Filter{}, p)
		must(t, err)
		shown = append(shown, listed.Items...)
		if p.Cursor = listed.Next; p.Cursor == "" {
			break
		}
	}
	if got := sorted(shown); !slices.Equal(got, readable) {
		t.Errorf("List = %v, want %v", got, readable)
	}

	missing := agenttest.ID()
	exist, err := c.WorkerStore().Exists(t.Context(), append([]string{missing, "no id/"}, all...))
	must(t, err)
	if len(exist) != len(all) || exist[missing] {
		t.Errorf("Exists = %v, want every agent, unreadable or not, and no other", exist)
	}
}

// TestRecount_LeavesUsageWhenAnAgentIsUnreadable: a count without the agent would free what it holds.
func TestRecount_LeavesUsageWhenAnAgentIsUnreadable(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org := agentFixture(c).Tenant(t, plan.Pro)
	ref, _ := c.agent(org.Create(plan.Pro).ID)
	held := org.Usage()
	_, err := ref.Update(t.Context(), []gcp.Update{{Path: "status", Value: 1}})
	must(t, err)
	if drift, found, err := c.Counts().Recount(t.Context(), org.ID); err == nil || found {
		t.Errorf("Recount = %+v, %t, %v, want an error and no repair", drift, found, err)
	}
	if got := org.Usage(); got != held {
		t.Errorf("usage = %+v, want %+v", got, held)
	}
}

func TestFindKey_RefusesMalformedFields(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org := agentFixture(c).Tenant(t, plan.Enterprise)
	key := newKey()
	_, err := c.Keys().Create(org.Ctx, key)
	must(t, err)
	ref, _ := c.ref(keyCollection, key.Hash)
	_, err = ref.Update(t.Context(), []gcp.Update{{Path: "expires_at", Value: "never"}})
	must(t, err)
	if got, _, err := c.Keys().Find(t.Context(), key.Hash, document.Ref{}); err == nil {
		t.Errorf("the malformed key was read as %+v", got)
	}
}

// TestDecode_KeepsNothingOfAnotherAgent decodes an agent with every field and then one without any, as records of
// agents are used one after the other.
func TestDecode_KeepsNothingOfAnotherAgent(t *testing.T) {
	t.Parallel()
	full := encodeAgent(agenttest.FullAgent(agenttest.Now()), "a write")
	for _, last := range []map[string]any{full, {"env": "malformed", "name": "a name"}} {
		for range 10 { // a pool may forget a record
			_, _, _ = decodeAgent("full", inMap(last))
			got, writeID, err := decodeAgent("empty", inMap(nil))
			if err != nil || writeID != "" || !reflect.DeepEqual(got, agent.Agent{ID: "empty"}) {
				t.Fatalf("an empty document is read as the write %q of %+v, %v", writeID, got, err)
			}
		}
	}
}

package firestore

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
)

// TestCalls counts the calls of every operation while nobody else writes. Each call is latency and money.
func TestCalls(t *testing.T) {
	t.Parallel()
	counter := &calls{}
	c := open(t, "", Options{Observe: counter.observe})
	w := agentWorld(c)
	org := w.Tenant(t, plan.Enterprise)
	key := testKey()
	var a, spare agent.Agent
	fine := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ensure := func(name string) func() {
		return func() { fine(c.Directory().Ensure(org.Ctx, "new", organization.User{ID: "new", Name: name})) }
	}
	touch := func() { c.Keys().Touch(org.Ctx, key); c.Flush() }
	update := func() { _, err := w.Store.Change(org.Ctx, spare.ID, stop); fine(err) }
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{name: "ping", do: func() { fine(c.Ping(org.Ctx)) }, want: "read"},
		{name: "create an agent", do: func() { a = org.Create(plan.Pro) }, want: "read commit"},
		{name: "create another", do: func() { spare = org.Create(plan.Pro) }, want: "read commit"},
		{name: "get an agent", do: func() { _, err := w.Store.Get(org.Ctx, a.ID); fine(err) }, want: "read"},
		{name: "create a key", do: func() { _, err := c.Keys().Create(org.Ctx, key); fine(err) }, want: "read commit"},
		{name: "get an agent with a key", do: func() { getWithKey(t, c, key, a.ID) }, want: "read"},
		{name: "touch", do: touch, want: "commit"},
		{name: "touch again", do: touch, want: ""},
		{name: "change", do: update, want: "read commit"},
		{name: "change nothing", do: update, want: "read"},
		{name: "a worker's run", do: func() { a = runStages(t, c, a.ID) }, want: "read" +
			strings.Repeat(" commit", len(agent.StageNames()))},
		{name: "record nothing", do: func() {
			_,
				err := c.WorkerStore().Update(t.Context(), a, func(*agent.Agent) {})
			fine(err)
		}, want: "read"},
		{name: "list", do: func() {
			_, err := w.Store.List(org.Ctx, agent.Filter{Status: agent.Running}, page.Request{})
			fine(err)
		}, want: "query"},
		{name: "due", do: func() { _, err := c.WorkerStore().ListDue(org.Ctx, agenttest.Now(), 5); fine(err) },
			want: "query"},
		{name: "remove", do: func() { fine(c.WorkerStore().Remove(org.Ctx, a)) }, want: "commit"},
		{name: "revoke", do: func() { fine(c.Keys().Revoke(org.Ctx, key.ID)) }, want: "read query commit"},
		{name: "ensure what is new", do: ensure("Ada"), want: "read commit"},
		{name: "ensure again", do: ensure("Ada"), want: ""},
		{name: "ensure another name", do: ensure("Grace"), want: "read commit"},
		{name: "ensure that again", do: ensure("Grace"), want: ""},
		{name: "ensure in another process", do: func() { c.ensured = newKnownRecords(); ensure("Grace")() },
			want: "read"},
		{name: "append to the audit log",
			do:   func() { fine(c.AuditLog().Append(org.Ctx, audit.Entry{ID: "entry", OrganizationID: org.ID})) },
			want: "read commit"},
		{name: "list the audit log", do: func() {
			_, err := c.AuditLog().List(org.Ctx, audit.Filter{Outcome: audit.Succeeded}, page.Request{})
			fine(err)
		}, want: "query"},
	} {
		if got := plain(counter.of(step.do)); got != step.want {
			t.Errorf("%s: calls %q, want %q", step.name, got, step.want)
		}
	}
}

// getWithKey reads an agent as a request with an API key does.
func getWithKey(t *testing.T, c *Client, key apikey.Key, id string) {
	t.Helper()
	ctx, k, err := c.Keys().Find(t.Context(), key.Hash, agent.Document(id))
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.Agents(nil).Get(identity.With(ctx, identity.Caller{OrganizationID: k.OrganizationID}), id)
	if err != nil || a.ID != id {
		t.Errorf("got the agent %s, %v; want %s", a.ID, err, id)
	}
}

// runStages records progress as a worker does.
func runStages(t *testing.T, c *Client, id string) agent.Agent {
	t.Helper()
	a, err := c.WorkerStore().Load(t.Context(), id)
	for _, stage := range agent.StageNames() {
		if err != nil {
			t.Fatal(err)
		}
		a, err = c.WorkerStore().Update(t.Context(), a, func(a *agent.Agent) { a.BeginStage(stage, agenttest.Now()) })
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// plain shortens the names of calls.
func plain(sent []string) string {
	return strings.NewReplacer("BatchGetDocuments", "read", "RunQuery", "query", "Commit",
		"commit").Replace(strings.Join(sent, " "))
}

func stop(a *agent.Agent) error { return a.Act(agent.Stop, agent.Manual, agenttest.Now()) }

func testKey() apikey.Key {
	full := apikey.Generate()
	return apikey.Key{
		ID: agenttest.ID(), Name: "CI", Prefix: full[:apikey.PrefixLength], Hash: apikey.Hash([]byte("pepper"), full),
		CreatedAt: agenttest.Now(),
	}
}

// TestCompetitors: each commit that loses lost to one that won, so the work is bounded by the competitors and not by
// the clock.
func TestCompetitors(t *testing.T) {
	t.Parallel()
	const creators = 16
	counter := &calls{}
	c := open(t, "", Options{Observe: counter.observe})
	w := agentWorld(c)
	org := w.Tenant(t, plan.Enterprise)
	errs := make([]error, creators)
	began := time.Now()
	sent := counter.of(func() {
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() { _, errs[i] = w.Store.Create(org.Ctx, agenttest.Draft(plan.Hobby)) })
		}
		all.Wait()
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	commits := len(slices.DeleteFunc(sent, func(m string) bool { return m != "Commit" }))
	t.Logf("%d creators of one organization: %d commits in %v", creators, commits,
		time.Since(began).Round(time.Millisecond))
	if commits > creators*creators {
		t.Errorf("%d commits, want at most %d", commits, creators*creators)
	}
}

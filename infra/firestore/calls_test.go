package firestore

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image/imagetest"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/ratelimit"
)

// TestCallsPerOperation counts the calls of every operation without competitors. Each call costs time and money.
func TestCallsPerOperation(t *testing.T) {
	t.Parallel()
	recorder := &callRecorder{}
	c := open(t, "", Options{Observe: recorder.observe, Creations: ratelimit.Limit{Quota: 2, Window: time.Hour}})
	w := agentFixture(c)
	org := w.Tenant(t, plan.Enterprise)
	key := newKey()
	var a, spare agent.Agent
	ensure := func(name string) func() {
		return func() {
			must(t, errorOf(c.Directory().Ensure(org.Ctx, "new", organization.User{ID: "new", Name: name})))
		}
	}
	touch := func() { c.Keys().Touch(org.Ctx, key); c.Flush() }
	lookUp := func() { must(t, errorOf(c.Images().Images(org.Ctx))) }
	stopSpare := func() { _, err := w.Store.Change(org.Ctx, spare.ID, stop); must(t, err) }
	recorder.wantCalls(t, []callStep{
		{name: "ping", do: func() { must(t, c.Ping(org.Ctx)) }, want: "read"},
		{name: "create an agent", do: func() { a = org.Create(plan.Pro) }, want: "read commit"},
		{name: "create another agent", do: func() { spare = org.Create(plan.Pro) }, want: "read commit"},
		{name: "create an agent over the rate limit", do: func() { createOverLimit(t, org, w.Store) }, want: "read"},
		{name: "get an agent", do: func() { _, err := w.Store.Get(org.Ctx, a.ID); must(t, err) }, want: "read"},
		{
			name: "create a key", do: func() { _, err := c.Keys().Create(org.Ctx, key); must(t, err) },
			want: "read commit",
		},
		{name: "get an agent with a key", do: func() { getAgentWithKey(t, c, key, a.ID) }, want: "read"},
		{name: "touch a key", do: touch, want: "commit"},
		{name: "touch the key again", do: touch, want: ""},
		{name: "stop an agent", do: stopSpare, want: "read commit"},
		{name: "stop a stopped agent", do: stopSpare, want: "read"},
		{
			name: "a worker's run", do: func() { a = recordStages(t, c, a.ID) },
			want: "read" + strings.Repeat(" commit", len(agent.StageNames())),
		},
		{name: "a worker's update without a change", do: func() {
			_, err := c.WorkerStore().Update(t.Context(), a, func(*agent.Agent) {})
			must(t, err)
		}, want: "read"},
		{name: "change all settings of an organization", do: func() {
			must(t, c.Directory().Choose(t.Context(), org.ID, func(chosen *organization.Choices) error {
				chosen.Exec, chosen.Egress = organization.ExecOff, egress.Rules{Mode: egress.AllowList}
				return nil
			}))
		}, want: "read commit"},
		{name: "list agents", do: func() {
			_, err := w.Store.List(org.Ctx, agent.Filter{Status: agent.Running}, page.Request{})
			must(t, err)
		}, want: "query"},
		{name: "list due agents", do: func() {
			_, err := c.WorkerStore().ListDue(org.Ctx, agenttest.Now(), 5)
			must(t, err)
		}, want: "query"},
		{name: "remove an agent", do: func() {
			must(t, c.WorkerStore().Remove(org.Ctx, a, agent.Deletion{}))
		}, want: "commit"},
		{name: "revoke a key", do: func() { must(t, c.Keys().Revoke(org.Ctx, key.ID)) }, want: "read query commit"},
		{name: "ensure new records", do: ensure("Ada"), want: "read commit"},
		{name: "ensure known records", do: ensure("Ada"), want: ""},
		{name: "ensure a changed name", do: ensure("Grace"), want: "read commit"},
		{name: "ensure the known name", do: ensure("Grace"), want: ""},
		{name: "ensure known records in another process", do: func() {
			c.ensured = newKnownRecords()
			ensure("Grace")()
		}, want: "read"},
		{name: "append to the audit log", do: func() {
			must(t, c.AuditLog().Append(org.Ctx, audit.Entry{ID: "entry", OrganizationID: org.ID}))
		}, want: "read commit"},
		{name: "list the audit log", do: func() {
			_, err := c.AuditLog().List(org.Ctx, audit.Filter{Outcome: audit.Succeeded}, page.Request{})
			must(t, err)
		}, want: "query"},
		{name: "look up the images", do: lookUp, want: "query"},
		{name: "look up the images again", do: lookUp, want: ""},
		{name: "put an image", do: func() {
			must(t, errorOf(c.Images().Put(org.Ctx, imagetest.Full("assistant"))))
		}, want: "commit"},
		{name: "look up the changed images", do: lookUp, want: "query"},
	})
}

func createOverLimit(t *testing.T, org agenttest.Tenant, store agent.Store) {
	t.Helper()
	if _, err := store.Create(org.Ctx, agenttest.Draft(plan.Hobby)); !fault.Is(err, fault.RateLimited) {
		t.Errorf("create an agent over the limit: %v, want RateLimited", err)
	}
}

// fetchedWithKey returns the context of a request with an API key, which was read together with a document.
func fetchedWithKey(ctx context.Context, t *testing.T, c *Client, key apikey.Key, ref document.Ref) context.Context {
	t.Helper()
	k, fetched, err := c.Keys().Find(ctx, key.Hash, ref)
	must(t, err)
	return call.Derive(ctx, func(made *call.Call) {
		made.Fetched = fetched
		if made.Caller.OrganizationID == "" {
			made.Caller.OrganizationID = k.OrganizationID
		}
	})
}

// getAgentWithKey reads an agent as a request with an API key does.
func getAgentWithKey(t *testing.T, c *Client, key apikey.Key, id string) {
	t.Helper()
	a, err := c.Agents(nil).Get(fetchedWithKey(t.Context(), t, c, key, agent.Document(id)), id)
	must(t, err)
	if a.ID != id {
		t.Errorf("got agent %s, want %s", a.ID, id)
	}
}

// recordStages begins one stage after the other, as a worker does.
func recordStages(t *testing.T, c *Client, id string) agent.Agent {
	t.Helper()
	a, err := c.WorkerStore().Load(t.Context(), id)
	for _, stage := range agent.StageNames() {
		must(t, err)
		a, err = c.WorkerStore().Update(t.Context(), a, func(a *agent.Agent) { a.BeginStage(stage, agenttest.Now()) })
	}
	must(t, err)
	return a
}

// TestCreate_EachLostRaceHasAWinner: a commit only fails because another one succeeded. So the number of commits is
// bounded by the number of competitors, not by the deadline.
func TestCreate_EachLostRaceHasAWinner(t *testing.T) {
	t.Parallel()
	const creators = 16
	recorder := &callRecorder{}
	c := open(t, "", Options{Observe: recorder.observe})
	w := agentFixture(c)
	org := w.Tenant(t, plan.Enterprise)
	errs := make([]error, creators)
	began := time.Now()
	calls := recorder.during(func() {
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() { _, errs[i] = w.Store.Create(org.Ctx, agenttest.Draft(plan.Hobby)) })
		}
		all.Wait()
	})
	must(t, errors.Join(errs...))
	commits := strings.Count(calls, "commit")
	t.Logf("%d creators in one organization: %d commits in %v", creators, commits,
		time.Since(began).Round(time.Millisecond))
	if commits > creators*creators {
		t.Errorf("%d commits, want at most %d", commits, creators*creators)
	}
}

package firestore

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"agents.example/controlplane/emulators/firestoreemu/embedded/index"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/plan"
)

// TestIdempotency_CallsPerRequest: an idempotency key adds no call to a change, a repeated request only reads, and a
// request that changes nothing commits its answer.
func TestIdempotency_CallsPerRequest(t *testing.T) {
	t.Parallel()
	recorder := &callRecorder{}
	c := open(t, "", Options{Observe: recorder.observe})
	w := agentFixture(c)
	org := w.Tenant(t, plan.Enterprise)
	a, key := org.Create(plan.Pro), newKey()
	for _, row := range []struct {
		name             string
		send             func(ctx context.Context) error
		want, wantRepeat string
	}{
		{
			name: "create an agent",
			send: func(ctx context.Context) error {
				_, err := w.Store.Create(ctx, agenttest.Draft(plan.Hobby))
				return err
			},
			want: "read commit", wantRepeat: "read",
		},
		{
			name: "change an agent",
			send: func(ctx context.Context) error { _, err := w.Store.Change(ctx, a.ID, stop); return err },
			want: "read commit", wantRepeat: "read",
		},
		{
			name: "change nothing",
			send: func(ctx context.Context) error { _, err := w.Store.Change(ctx, a.ID, changeNothing); return err },
			want: "read commit", wantRepeat: "read",
		},
		{
			name: "a change that each request carries out",
			send: func(ctx context.Context) error {
				call.From(ctx).Attempt.DiscardAnswer()
				_, err := w.Store.Change(ctx, a.ID, restart)
				return err
			},
			want: "read commit", wantRepeat: "read commit",
		},
		{
			name: "create a key",
			send: func(ctx context.Context) error { _, err := c.Keys().Create(ctx, key); return err },
			want: "read commit", wantRepeat: "read",
		},
		{
			name: "revoke a key",
			send: func(ctx context.Context) error { return c.Keys().Revoke(ctx, key.ID) },
			want: "read query commit", wantRepeat: "read",
		},
	} {
		for i, want := range []string{row.want, row.wantRepeat} {
			ctx, _ := org.Attempt(row.name, "")
			if got := recorder.during(func() { must(t, row.send(ctx)) }); got != want {
				t.Errorf("%s, request %d: calls %q, want %q", row.name, i+1, got, want)
			}
		}
	}
}

// TestIdempotencyKey_ExpiresAfterItsRetention: then the key can be used again, even if its document still exists.
func TestIdempotencyKey_ExpiresAfterItsRetention(t *testing.T) {
	t.Parallel()
	began := time.Now()
	c := open(t, "", Options{})
	org := agentFixture(c).Tenant(t, plan.Enterprise)
	ids := map[string]bool{}
	const retention = 24 * time.Hour // as the interface promises
	for _, step := range []struct {
		after        time.Duration
		body         string
		wantReplayed bool
		wantCode     string
	}{
		{after: 0, body: "one"},
		{after: retention - time.Minute, body: "one", wantReplayed: true},
		{after: retention - time.Minute, body: "two", wantCode: "idempotency_key_reused"},
		{after: retention + time.Minute, body: "two"},
		{after: retention + time.Minute, body: "two", wantReplayed: true},
		{after: 2*retention - time.Minute, body: "one", wantCode: "idempotency_key_reused"},
		{after: 2*retention + 2*time.Minute, body: "one"},
	} {
		later := openAt(t, c.project(), began.Add(step.after))
		ctx, attempt := org.Attempt("k", step.body)
		a, err := later.Agents(&agenttest.Nudges{}).Create(ctx, agenttest.Draft(plan.Hobby))
		if got := attempt.Replayed(); got != step.wantReplayed {
			t.Errorf("body %s after %v: replayed %t, want %t", step.body, step.after, got, step.wantReplayed)
		}
		if got := fault.Code(err); got != step.wantCode || (err == nil) != (step.wantCode == "") {
			t.Errorf("body %s after %v: error %v, want code %q", step.body, step.after, err, step.wantCode)
		}
		if err == nil {
			ids[a.ID] = true
		}
	}
	if len(ids) != 3 {
		t.Errorf("answers with %d different agents, want 3", len(ids))
	}
	if agents := (tenantFixture{client: c, org: org}).listAgents(t); len(agents) != 3 {
		t.Errorf("%d agents, want 3", len(agents))
	}
}

// TestIdempotency_UnderFaults fails every call of a request with an idempotency key, and repeats the request, as
// clients do. The request must be carried out once, and every successful answer must be the same.
func TestIdempotency_UnderFaults(t *testing.T) {
	t.Parallel()
	for name, r := range repeatableRequests() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := open(t, "", Options{}) // queries read a collection of all tenants
			forEachFault(func(f *injectedFault) bool { return checkRepeatsWithFault(t, c, r, f) }, codes.Unavailable,
				codes.DeadlineExceeded, codes.Aborted)
		})
	}
}

// repeatableRequest is a request with an idempotency key.
type repeatableRequest struct {
	send func(ctx context.Context, c *Client, x tenantFixture) (answer any, err error)
	// timesDone counts how often the request was carried out.
	timesDone func(t *testing.T, x tenantFixture) int
}

func repeatableRequests() map[string]repeatableRequest {
	return map[string]repeatableRequest{
		"create an agent": {
			send: func(ctx context.Context, c *Client, _ tenantFixture) (any, error) {
				a, err := c.Agents(&agenttest.Nudges{}).Create(ctx, agenttest.Draft(plan.Hobby))
				return withoutEnvValues(a), err
			},
			timesDone: func(t *testing.T, x tenantFixture) int { return len(x.listAgents(t)) - 1 },
		},
		"change an agent": {
			send: func(ctx context.Context, c *Client, x tenantFixture) (any, error) {
				a, err := c.Agents(&agenttest.Nudges{}).Change(ctx, x.agent.ID, restart)
				return withoutEnvValues(a), err
			},
			timesDone: func(t *testing.T, x tenantFixture) int { return int(x.loadAgent(t).Rollout) },
		},
		"create a key": {
			send: func(ctx context.Context, c *Client, _ tenantFixture) (any, error) {
				k, err := c.Keys().Create(ctx, newKey())
				return k.Show(), err
			},
			timesDone: func(t *testing.T, x tenantFixture) int { return len(x.listKeys(t)) - 1 },
		},
		"revoke a key": {
			send: func(ctx context.Context, c *Client, x tenantFixture) (any, error) {
				return nil, c.Keys().Revoke(ctx, x.key.ID)
			},
			timesDone: func(t *testing.T, x tenantFixture) int { return 1 - len(x.listKeys(t)) },
		},
	}
}

// checkRepeatsWithFault sends a request with the fault, and repeats it twice without.
func checkRepeatsWithFault(t *testing.T, c *Client, r repeatableRequest, f *injectedFault) (reached bool) {
	t.Helper()
	tenant := newTenantFixture(t, c)
	entriesBefore := len(tenant.org.Entries())
	ctx, attempt := tenant.org.Attempt("k", "")
	former, formerErr := r.send(ctx, open(t, c.project(), f.options()), tenant)
	if formerErr == nil && attempt.Replayed() {
		t.Errorf("%s: the first request is answered as a repeated one", f)
	}
	done := r.timesDone(t, tenant)
	for i := range 2 {
		ctx, attempt := tenant.org.Attempt("k", "")
		got, err := r.send(ctx, c, tenant)
		if err != nil {
			t.Errorf("%s, repeat %d: %v", f, i+1, err)
		}
		if got, want := attempt.Replayed(), done == 1; got != want {
			t.Errorf("%s, repeat %d of a request done %d times: replayed %t, want %t", f, i+1, done, got, want)
		}
		if formerErr == nil && !reflect.DeepEqual(got, former) {
			t.Errorf("%s, repeat %d: another answer\n got %+v\nwant %+v", f, i+1, got, former)
		}
		if done = r.timesDone(t, tenant); done != 1 {
			t.Errorf("%s, repeat %d: done %d times, want 1", f, i+1, done)
		}
		former, formerErr = got, err
	}
	if got := len(tenant.org.Entries()) - entriesBefore; got != 1 {
		t.Errorf("%s: %d audit entries, want 1", f, got)
	}
	return f.reached()
}

func withoutEnvValues(a agent.Agent) agent.Agent {
	a.Env = slices.Clone(a.Env)
	for i := range a.Env {
		a.Env[i].Value = ""
	}
	return a
}

// TestIdempotentAnswer_HoldsNoSecrets: the document shows neither the idempotency key nor the request, nor what the
// answer hides.
func TestIdempotentAnswer_HoldsNoSecrets(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org := agentFixture(c).Tenant(t, plan.Pro)
	full := apikey.Generate()
	key := newKey()
	key.Hash = apikey.Hash([]byte("pepper"), full)
	for name, send := range map[string]func(ctx context.Context) error{
		"create an agent": func(ctx context.Context) error {
			_, err := c.Agents(&agenttest.Nudges{}).Create(ctx, agenttest.Draft(plan.Hobby))
			return err
		},
		"create a key": func(ctx context.Context) error { _, err := c.Keys().Create(ctx, key); return err },
	} {
		ctx, attempt := org.Attempt("visible-key-"+agenttest.ID(), "visible-body")
		must(t, send(ctx))
		ref, _ := c.ref(idempotencyCollection, attempt.ID)
		snap, err := ref.Get(t.Context())
		must(t, err)
		doc := snap.Data()
		content := fmt.Sprintf("%s %+v", snap.Ref.ID, doc)
		for _, hidden := range []string{"visible-key", "visible-body", "plain-value", full, key.Hash} {
			if strings.Contains(content, hidden) {
				t.Errorf("%s: the document holds %q: %s", name, hidden, content)
			}
		}
		if got := doc["organization_id"]; got != org.ID {
			t.Errorf("%s: organization_id = %v, want %s", name, got, org.ID)
		}
		if doc["answer"] == nil {
			t.Errorf("%s: answer = nil, want a record", name)
		}
		created, _ := doc["created_at"].(time.Time)
		expires, _ := doc["expires_at"].(time.Time)
		if got := expires.Sub(created); got != idempotency.Retention {
			t.Errorf("%s: expires after %v, want %v", name, got, idempotency.Retention)
		}
	}
}

func TestIdempotentAnswer_HasNoIndexEntries(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"expires_at", "answer"} {
		if !slices.ContainsFunc(declaredIndexes(t).FieldOverrides, func(o index.Override) bool {
			return o.CollectionGroup == idempotencyCollection && o.FieldPath == field && len(o.Indexes) == 0
		}) {
			t.Errorf("%s is indexed, but no query needs it", field)
		}
	}
}

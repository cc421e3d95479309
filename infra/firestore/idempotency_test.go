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
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/plan"
)

// TestCallsWithKey: a key costs a change no call. What had nothing to do has to be kept, and a repeat only reads.
func TestCallsWithKey(t *testing.T) {
	t.Parallel()
	counter := &calls{}
	c := open(t, "", Options{Observe: counter.observe})
	w := agentWorld(c)
	org := w.Tenant(t, plan.Enterprise)
	a, key := org.Create(plan.Pro), testKey()
	do := map[string]func(ctx context.Context) error{
		"create an agent": func(ctx context.Context) error {
			_, err := w.Store.Create(ctx, agenttest.Draft(plan.Hobby))
			return err
		},
		"change": func(ctx context.Context) error { _, err := w.Store.Change(ctx, a.ID, stop); return err },
		"change nothing": func(ctx context.Context) error {
			_, err := w.Store.Change(ctx, a.ID, func(*agent.Agent) error { return nil })
			return err
		},
		"change anew": func(ctx context.Context) error {
			idempotency.Anew(ctx)
			_, err := w.Store.Change(ctx, a.ID, func(a *agent.Agent) error { a.Rollout++; return nil })
			return err
		},
		"create a key": func(ctx context.Context) error { _, err := c.Keys().Create(ctx, key); return err },
		"revoke":       func(ctx context.Context) error { return c.Keys().Revoke(ctx, key.ID) },
	}
	for _, step := range []struct{ name, want, repeat string }{
		{name: "create an agent", want: "read commit", repeat: "read"},
		{name: "change", want: "read commit", repeat: "read"},
		{name: "change nothing", want: "read commit", repeat: "read"},
		{name: "change anew", want: "read commit", repeat: "read commit"},
		{name: "create a key", want: "read commit", repeat: "read"},
		{name: "revoke", want: "read query commit", repeat: "read"},
	} {
		for _, want := range []string{step.want, step.repeat} {
			ctx, _ := org.Attempt(step.name, "")
			if got := plain(counter.of(func() {
				if err := do[step.name](ctx); err != nil {
					t.Error(err)
				}
			})); got != want {
				t.Errorf("%s: calls %q, want %q", step.name, got, want)
			}
		}
	}
}

// TestKeyExpires: after a day the key is free, whether its document was deleted or not.
func TestKeyExpires(t *testing.T) {
	t.Parallel()
	began := time.Now()
	c := open(t, "", Options{})
	org := agentWorld(c).Tenant(t, plan.Enterprise)
	ids := map[string]bool{}
	for _, step := range []struct {
		after    time.Duration
		what     string
		replayed bool
		code     string
	}{
		{after: 0, what: "one", replayed: false, code: ""},
		{after: idempotency.Retention - time.Minute, what: "one", replayed: true, code: ""},
		{after: idempotency.Retention - time.Minute, what: "two", replayed: false, code: "idempotency_key_reused"},
		{after: idempotency.Retention + time.Minute, what: "two", replayed: false, code: ""},
		{after: idempotency.Retention + time.Minute, what: "two", replayed: true, code: ""},
		{after: 2*idempotency.Retention - time.Minute, what: "one", replayed: false, code: "idempotency_key_reused"},
		{after: 2*idempotency.Retention + 2*time.Minute, what: "one", replayed: false, code: ""},
	} {
		at := open(t, c.project(), Options{Now: func() time.Time { return began.Add(step.after) }})
		ctx, attempt := org.Attempt("k", step.what)
		a, err := at.Agents(&agenttest.Nudges{}).Create(ctx, agenttest.Draft(plan.Hobby))
		if attempt.Replayed() != step.replayed || fault.Code(err) != step.code || (err == nil) != (step.code == "") {
			t.Errorf("%s after %v: replayed %t, %v", step.what, step.after, attempt.Replayed(), err)
		}
		if err == nil {
			ids[a.ID] = true
		}
	}
	if agents := agentsOf(t, scene{c: c, org: org}); len(ids) != 3 || len(agents) != 3 {
		t.Errorf("%d answers and %d agents, want 3", len(ids), len(agents))
	}
}

// TestKeyAfterFaults fails every call of a request with a key in every way, and has its client repeat it, as clients
// do: it is done once, and when the first answer came through, the repeat gets the same.
func TestKeyAfterFaults(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	for name, op := range repeatable() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everyFailure(func(s *sabotage) bool { return repeated(t, c, op, s) }, codes.Unavailable,
				codes.DeadlineExceeded, codes.Aborted)
		})
	}
}

// request is a request with a key, which answers with some record.
type request struct {
	do func(ctx context.Context, c *Client, s scene) (any, error)
	// done is how often it was done.
	done func(t *testing.T, s scene) int
}

func repeatable() map[string]request {
	return map[string]request{
		"create an agent": {
			do: func(ctx context.Context, c *Client, _ scene) (any, error) {
				a, err := c.Agents(&agenttest.Nudges{}).Create(ctx, agenttest.Draft(plan.Hobby))
				return withoutValues(a), err
			},
			done: func(t *testing.T, s scene) int { return len(agentsOf(t, s)) - 1 },
		},
		"change an agent": {
			do: func(ctx context.Context, c *Client, s scene) (any, error) {
				a, err := c.Agents(&agenttest.Nudges{}).Change(ctx, s.agent.ID, func(a *agent.Agent) error {
					a.Rollout++
					return nil
				})
				return withoutValues(a), err
			},
			done: func(t *testing.T, s scene) int { return int(mustLoad(t, s).Rollout) },
		},
		"create a key": {
			do: func(ctx context.Context, c *Client, _ scene) (any, error) {
				k, err := c.Keys().Create(ctx, testKey())
				return k.Show(), err
			},
			done: func(t *testing.T, s scene) int { return len(keysOf(t, s)) - 1 },
		},
		"revoke a key": {
			do: func(ctx context.Context, c *Client, s scene) (any, error) {
				return nil, c.Keys().Revoke(ctx, s.key.ID)
			},
			done: func(t *testing.T, s scene) int { return 1 - len(keysOf(t, s)) },
		},
	}
}

// repeated makes a request under sabotage, and then twice more without. It is false when the request makes fewer calls.
func repeated(t *testing.T, c *Client, r request, s *sabotage) bool {
	t.Helper()
	o, label := s.options()
	scene := newScene(t, c)
	before := len(scene.org.Entries())
	ctx, attempt := scene.org.Attempt("k", "")
	first, err := r.do(ctx, open(t, c.project(), o), scene)
	if err == nil && attempt.Replayed() {
		t.Errorf("%s: the request found its own answer and took it for another's", label)
	}
	done := r.done(t, scene)
	for range 2 {
		ctx, attempt := scene.org.Attempt("k", "")
		got, failed := r.do(ctx, c, scene)
		if failed != nil || attempt.Replayed() != (done == 1) {
			t.Errorf("%s: the repeat of what was done %d times: replayed %t, %v", label, done, attempt.Replayed(),
				failed)
		}
		if err == nil && !reflect.DeepEqual(got, first) {
			t.Errorf("%s: the repeat got another answer:\n got %+v\nwant %+v", label, got, first)
		}
		if done = r.done(t, scene); done != 1 {
			t.Errorf("%s: done %d times", label, done)
		}
		first, err = got, failed
	}
	if n := len(scene.org.Entries()) - before; n != 1 {
		t.Errorf("%s: %d audit entries", label, n)
	}
	return s.calls >= s.at
}

func withoutValues(a agent.Agent) agent.Agent {
	a.Env = slices.Clone(a.Env)
	for i := range a.Env {
		a.Env[i].Value = ""
	}
	return a
}

// TestKept: what is kept shows neither the key nor the request nor what an answer doesn't show, and its index entries
// cost nothing.
func TestKept(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org := agentWorld(c).Tenant(t, plan.Pro)
	full := apikey.Generate()
	key := testKey()
	key.Hash = apikey.Hash([]byte("pepper"), full)
	var ids []string
	for _, do := range []func(ctx context.Context) error{
		func(ctx context.Context) error {
			_, err := c.Agents(&agenttest.Nudges{}).Create(ctx, agenttest.Draft(plan.Hobby))
			return err
		},
		func(ctx context.Context) error { _, err := c.Keys().Create(ctx, key); return err },
	} {
		ctx, attempt := org.Attempt("visible-key-"+agenttest.ID(), "visible-body")
		if err := do(ctx); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, attempt.ID)
	}
	for _, id := range ids {
		ref, _ := c.ref(idempotencyCollection, id)
		snap, err := ref.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		data := snap.Data()
		text := fmt.Sprintf("%s %+v", snap.Ref.ID, data)
		for _, hidden := range []string{"visible-key", "visible-body", "plain-value", full, key.Hash} {
			if strings.Contains(text, hidden) {
				t.Errorf("%q is kept: %s", hidden, text)
			}
		}
		created, _ := data["created_at"].(time.Time)
		expires, _ := data["expires_at"].(time.Time)
		if data["organization_id"] != org.ID || data["answer"] == nil || expires.Sub(created) != idempotency.Retention {
			t.Errorf("the document is %+v", data)
		}
	}
	for _, field := range []string{"expires_at", "answer"} {
		if !slices.ContainsFunc(readIndexes(t).FieldOverrides, func(o index.Override) bool {
			return o.CollectionGroup == idempotencyCollection && o.FieldPath == field && len(o.Indexes) == 0
		}) {
			t.Errorf("%s is indexed for queries that nobody sends", field)
		}
	}
}

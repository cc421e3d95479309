package wire

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agents.example/controlplane/emulators/firestoreemu/embedded"
	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/infra/firestore"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/ratelimit"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // every call writes a line
	m.Run()
}

// deployment is one Firestore, an organization with an API key, and the configuration of every instance.
type deployment struct {
	records *firestore.Client
	config  config.Common
	pepper  apikey.Pepper
	token   string
}

func newDeployment(t *testing.T, factor int) deployment {
	t.Helper()
	server, err := embedded.Start(t.Context(), embedded.Options{Indexes: firestore.Indexes()})
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, server.Close)
	d := deployment{token: apikey.Generate(), pepper: []byte("pepper"), config: config.Common{
		ProjectID: "test", Environment: "test", RateLimitFactor: factor, Issuer: "https://issuer.test",
		AgentDomain: "agents.test", Cells: config.Cells{{Name: "cell-1", Region: agent.DefaultRegion}},
		Local: config.Local{FirestoreEmulator: server.Addr, SecretManager: "127.0.0.1:1"},
	}}
	d.records, err = firestore.Open(t.Context(), firestore.Options{ProjectID: "test", EmulatorHost: server.Addr})
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, d.records.Close)
	d.createTenant(t)
	return d
}

// createTenant creates the organization and its key.
func (d deployment) createTenant(t *testing.T) {
	t.Helper()
	const org = "org_1"
	ctx := call.As(t.Context(), identity.Caller{
		Type: identity.Session, ID: "user_1", OrganizationID: org, Role: identity.RoleAdmin,
	})
	if _, err := d.records.Directory().Ensure(ctx, org, organization.User{}); err != nil {
		t.Fatal(err)
	}
	if err := d.records.Directory().SetPlan(ctx, org, plan.Enterprise); err != nil {
		t.Fatal(err)
	}
	if _, err := d.records.Keys().Create(ctx, apikey.Key{
		ID: "11111111-1111-4111-8111-111111111111", Name: "test", Role: apikey.DefaultRole,
		Prefix: d.token[:apikey.PrefixLength], Hash: apikey.Hash(d.pepper, d.token), CreatedAt: time.Now(),
	}); err != nil {
		t.Fatal(err)
	}
}

func closeLater(t *testing.T, closer func() error) {
	t.Cleanup(func() {
		if err := closer(); err != nil {
			t.Error(err)
		}
	})
}

// instance opens a route as a separate process does. It may not publish, so no queue is needed.
func (d deployment) instance(t *testing.T, route string) http.Handler {
	t.Helper()
	o := New(context.WithoutCancel(t.Context()), d.config, Settings{Peppers: apikey.Peppers{Present: d.pepper}})
	closeLater(t, o.Close)
	guard, err := o.Guard()
	if err != nil {
		t.Fatal(err)
	}
	dependencies, err := o.For([]function.Need{function.Firestore, function.SecretAdd})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range functions.Routes(dependencies) {
		if r.Name == route {
			return r.Handler(guard)
		}
	}
	t.Fatalf("the catalogue has no route %s", route)
	return nil
}

// call calls a route with the organization's key.
func (d deployment) call(h http.Handler, method, body string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, "/api/v1/agents", strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+d.token)
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

// TestLimits_OverTwoInstances sends one caller's requests to two instances on one Firestore. Creations are limited over
// both. All other classes are limited in each.
func TestLimits_OverTwoInstances(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		route, method, body string
		factor              int
		wantStatus          int
		wantAllowed         int
		wantRefill          float64 // calls a second
		wantPolicy          string
	}{
		"creations": {
			route: "CreateAgent", method: http.MethodPost, body: `{"name": "a", "resource_plan": "hobby"}`, factor: 1,
			wantStatus: http.StatusCreated, wantAllowed: 10, wantRefill: 10.0 / 60,
			wantPolicy: `"creations";q=10;w=60`,
		},
		"creations with a factor": {
			route: "CreateAgent", method: http.MethodPost, body: `{"name": "a", "resource_plan": "hobby"}`, factor: 2,
			wantStatus: http.StatusCreated, wantAllowed: 20, wantRefill: 20.0 / 60,
			wantPolicy: `"creations";q=20;w=60`,
		},
		"reads": {
			route: "ListAgents", method: http.MethodGet, factor: 1,
			wantStatus: http.StatusOK, wantAllowed: 2 * 40, wantRefill: 2 * 10, wantPolicy: `"reads";q=40;w=4`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDeployment(t, c.factor)
			instances := []http.Handler{d.instance(t, c.route), d.instance(t, c.route)}
			var allowed, refused atomic.Int64
			began := time.Now()
			var all sync.WaitGroup
			for client := range 4 {
				all.Go(func() {
					for range c.wantAllowed/4 + 10 {
						w := d.call(instances[client%2], c.method, c.body)
						switch w.Code {
						case c.wantStatus:
							allowed.Add(1)
						case http.StatusTooManyRequests:
							refused.Add(1)
							checkRefusal(t, w, c.wantPolicy)
						default:
							t.Errorf("status %d, want %d or 429: %s", w.Code, c.wantStatus, w.Body)
						}
					}
				})
			}
			all.Wait()
			most := c.wantAllowed + int(math.Ceil(c.wantRefill*time.Since(began).Seconds()))
			if got := int(allowed.Load()); got < c.wantAllowed || got > most {
				t.Errorf("two instances allowed %d calls, want %d, and at most %d in this time", got, c.wantAllowed,
					most)
			}
			t.Logf("two instances allowed %d calls and refused %d in %v", allowed.Load(), refused.Load(),
				time.Since(began).Round(time.Millisecond))
		})
	}
}

// TestLimits_ExportsHaveTheirs exports a snapshot of 1,500 GiB twice, each time in another instance.
func TestLimits_ExportsHaveTheirs(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, 1)
	ctx := call.As(t.Context(), identity.Caller{Type: identity.Session, ID: "user_1", OrganizationID: "org_1"})
	for _, wantCode := range []string{"", "rate_limited"} {
		a, err := d.records.Agents(nil).Create(ctx, agenttest.Draft(plan.Hobby))
		if err != nil {
			t.Fatal(err)
		}
		a, err = d.records.WorkerStore().Update(ctx, a, func(a *agent.Agent) {
			a.Snapshots = []agent.Snapshot{{ID: "s", Status: agent.SnapshotReady, SizeBytes: 1500 << 30}}
		})
		if err != nil {
			t.Fatal(err)
		}
		o := New(context.WithoutCancel(t.Context()), d.config, Settings{Peppers: apikey.Peppers{Present: d.pepper}})
		closeLater(t, o.Close)
		dependencies, err := o.For([]function.Need{function.Firestore})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := dependencies.Exports.AdmitExport(ctx, a, "s", "a call"); fault.Code(err) != wantCode {
			t.Errorf("AdmitExport: %v, want code %q", err, wantCode)
		}
		units := 0
		for _, sent := range []int64{ratelimit.ExportUnit - 1, 1} {
			_ = dependencies.Sent.Count("org_1", sent, func() error { units++; return nil })
		}
		if units != 1 {
			t.Errorf("units of a GiB that was sent = %d, want 1", units)
		}
	}
}

// checkRefusal checks the answer to a call over a limit.
func checkRefusal(t *testing.T, w *httptest.ResponseRecorder, wantPolicy string) {
	t.Helper()
	if got := w.Header().Get("RateLimit-Policy"); got != wantPolicy {
		t.Errorf("RateLimit-Policy = %s, want %s", got, wantPolicy)
	}
	for _, name := range []string{"RateLimit", "Retry-After"} {
		if w.Header().Get(name) == "" {
			t.Errorf("a refused call has no header %s", name)
		}
	}
	var problem struct {
		Code string
		Meta map[string]any
	}
	if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil {
		t.Error(err)
	}
	class, _, _ := strings.Cut(strings.TrimPrefix(wantPolicy, `"`), `"`)
	if problem.Code != "rate_limited" || problem.Meta["limit"] != class {
		t.Errorf("code %s and meta %v, want rate_limited for %s", problem.Code, problem.Meta, class)
	}
}

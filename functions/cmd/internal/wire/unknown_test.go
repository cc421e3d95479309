package wire

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// TestLimits_CountReadsOfAgentsThatAreNotTheCallersAsReads sends reads of agents that do not exist, and of those of
// another organization. Neither gets a budget as the caller's own agents do.
func TestLimits_CountReadsOfAgentsThatAreNotTheCallersAsReads(t *testing.T) {
	t.Parallel()
	const calls = 300
	d := newDeployment(t, 1)
	foreign, own := d.createAgent(t, "org_2"), d.createAgent(t, "org_1")
	for name, id := range map[string]func() string{
		"unknown":              uuid.NewString,
		"another organization": func() string { return foreign },
	} {
		get := function.Mux([]function.Served{{
			Method: http.MethodGet, Path: "/api/v1/agents/{agent_id}", Handler: d.instance(t, "GetAgent"),
		}})
		read := func(id string) *httptest.ResponseRecorder {
			req := httptest.NewRequest(http.MethodGet, "/api/v1/agents/"+id, nil)
			req.Header.Set("Authorization", "Bearer "+d.token)
			w := httptest.NewRecorder()
			get.ServeHTTP(w, req)
			return w
		}
		began := time.Now()
		counts := map[int]int{}
		for range calls {
			w := read(id())
			counts[w.Code]++
			if w.Code == http.StatusTooManyRequests {
				checkRefusal(t, w, `"reads";q=40;w=4`)
			}
		}
		res := read(own)
		if got, want := res.Header().Get("RateLimit-Policy"), `"polling";q=5;w=1`; res.Code != 200 || got != want {
			t.Errorf("%s: then a read of the caller's agent: %d, policy %s, want 200, %s", name, res.Code, got, want)
		}
		most := 40 + int(math.Ceil(10*time.Since(began).Seconds()))
		if got := counts[http.StatusNotFound]; got < 40 || got > most || got+counts[429] != calls {
			t.Errorf("%s: statuses %v of %d calls, want 404 for 40, and for %d at most", name, counts, calls, most)
		}
	}
}

// createAgent creates an agent of an organization.
func (d deployment) createAgent(t *testing.T, org string) (id string) {
	t.Helper()
	ctx := call.As(t.Context(), identity.Caller{
		Type: identity.Session, ID: "user of " + org, OrganizationID: org, Role: identity.RoleAdmin,
	})
	if _, err := d.records.Directory().Ensure(ctx, org, organization.User{}); err != nil {
		t.Fatal(err)
	}
	a := agent.New(uuid.NewString(), "cell-1", agent.Draft{Name: "a", Plan: plan.Hobby}, time.Now())
	if _, err := d.records.Agents(nil).Create(ctx, a); err != nil {
		t.Fatal(err)
	}
	return a.ID
}

// TestLimits_AFloodOfTokensLeavesTheKeysBehindItsAddress sends bad tokens from the address of a good key, as an agent
// behind the same NAT may.
func TestLimits_AFloodOfTokensLeavesTheKeysBehindItsAddress(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, 1)
	list := d.instance(t, "ListAgents")
	call := func(token string) int {
		return deployment{token: token}.call(list, http.MethodGet, "").Code
	}
	for range 100 {
		if got := call("so_bad"); got != http.StatusUnauthorized {
			t.Fatalf("status of a malformed key = %d, want 401", got)
		}
	}
	if got := call(d.token); got != http.StatusOK {
		t.Errorf("status of a good key after malformed ones = %d, want 200", got)
	}
	counts := map[int]int{}
	for range 40 {
		counts[call(apikey.Generate())]++
	}
	if counts[401] < 20 || counts[401] > 21 || counts[429] != 40-counts[401] {
		t.Errorf("statuses of 40 unknown keys = %v, want 401 for 20 of them and 429 for the others", counts)
	}
	if got := call(d.token); got != http.StatusOK {
		t.Errorf("status of a good key after unknown ones = %d, want 200", got)
	}
}

// TestLimits_AFloodOfAgentsKeysLeavesTheAgentsBehindItsAddress sends keys of made-up agents from the address of an
// agent, as another agent of its cell may.
func TestLimits_AFloodOfAgentsKeysLeavesTheAgentsBehindItsAddress(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, 1)
	a := agent.New(uuid.NewString(), "cell-1", agent.Draft{Name: "a", Plan: plan.Hobby}, time.Now())
	key := credential.Generate("").APIKey
	a.APIKeyHash = credential.HashKey(a.ID, key)
	ctx := call.As(t.Context(), identity.Caller{
		Type: identity.Session, ID: "user_1", OrganizationID: "org_1", Role: identity.RoleAdmin,
	})
	if _, err := d.records.Agents(nil).Create(ctx, a); err != nil {
		t.Fatal(err)
	}
	o := New(context.WithoutCancel(t.Context()), d.config, Settings{Peppers: apikey.Peppers{Present: d.pepper}})
	closeLater(t, o.Close)
	guard, err := o.Guard()
	if err != nil {
		t.Fatal(err)
	}
	ask := func(agentID, token string) string {
		_, _, err := guard.Authenticator.Authenticate(t.Context(), identity.Attempt{
			Token: token, Address: "203.0.113.55", AgentID: agentID,
		})
		return fault.Code(err)
	}
	if code := ask(a.ID, key); code != "" {
		t.Fatalf("an agent's call before the flood: %q", code)
	}
	for i := 0; ask(uuid.NewString(), credential.Generate("").APIKey) != "rate_limited"; i++ {
		if i > 10_000 {
			t.Fatal("the flood has no limit")
		}
	}
	if code := ask(a.ID, key); code != "" {
		t.Errorf("an agent's call after the flood: %q, want it accepted", code)
	}
}

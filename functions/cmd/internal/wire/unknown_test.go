package wire

import (
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// TestLimits_CountReadsOfAgentsThatAreNotTheCallersAsReads sends reads of agents that do not exist, and of those of
// another organization. A caller must not be able to tell them apart, and gets no budget for either.
func TestLimits_CountReadsOfAgentsThatAreNotTheCallersAsReads(t *testing.T) {
	t.Parallel()
	const calls = 300
	d := newDeployment(t, 1)
	foreign := d.createForeignAgent(t)
	for name, id := range map[string]func() string{
		"unknown":              uuid.NewString,
		"another organization": func() string { return foreign },
	} {
		get := function.Mux([]function.Served{{
			Method: http.MethodGet, Path: "/api/v1/agents/{agent_id}", Handler: d.instance(t, "GetAgent"),
		}})
		began := time.Now()
		counts := map[int]int{}
		for range calls {
			req := httptest.NewRequest(http.MethodGet, "/api/v1/agents/"+id(), nil)
			req.Header.Set("Authorization", "Bearer "+d.token)
			w := httptest.NewRecorder()
			get.ServeHTTP(w, req)
			counts[w.Code]++
			if w.Code == http.StatusTooManyRequests {
				checkRefusal(t, w, `"reads";q=40;w=4`)
			}
		}
		most := 40 + int(math.Ceil(10*time.Since(began).Seconds()))
		if got := counts[http.StatusNotFound]; got < 40 || got > most || got+counts[429] != calls {
			t.Errorf("%s: statuses %v of %d calls, want 404 for 40, and for %d at most", name, counts, calls, most)
		}
	}
}

// createForeignAgent creates an agent of another organization than the key's.
func (d deployment) createForeignAgent(t *testing.T) (id string) {
	t.Helper()
	const org = "org_2"
	ctx := identity.With(t.Context(), identity.Caller{
		Type: identity.Session, ID: "user_2", OrganizationID: org, Role: identity.RoleAdmin,
	})
	if err := d.records.Directory().Ensure(ctx, org, organization.User{}); err != nil {
		t.Fatal(err)
	}
	a := agent.New(uuid.NewString(), "cell-1", agent.Draft{Name: "a", Plan: plan.Hobby}, time.Now())
	if _, err := d.records.Agents(nil).Create(ctx, a); err != nil {
		t.Fatal(err)
	}
	return a.ID
}

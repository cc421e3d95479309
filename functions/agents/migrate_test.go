package agents_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agents.example/controlplane/functions/agents"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
)

// singleAgentStore holds one agent, which Change changes.
type singleAgentStore struct {
	agent.Store
	agent agent.Agent
}

func (s *singleAgentStore) Change(_ context.Context, _ string, change func(*agent.Agent) error) (agent.Agent, error) {
	err := change(&s.agent)
	return s.agent, err
}

type adminAuthenticator struct{}

func (adminAuthenticator) Authenticate(context.Context, identity.Attempt) (identity.Caller, *document.Fetched, error) {
	return identity.Caller{ID: "u", OrganizationID: "org_1", Role: identity.RoleAdmin}, nil, nil
}

func TestMigrateSandbox_EnabledIsTrueUnlessItIsFalse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body        string
		before      bool
		wantStatus  int
		wantSandbox bool
	}{
		"no body":        {body: "", wantStatus: http.StatusOK, wantSandbox: true},
		"empty object":   {body: `{}`, wantStatus: http.StatusOK, wantSandbox: true},
		"true":           {body: `{"enabled": true}`, wantStatus: http.StatusOK, wantSandbox: true},
		"false":          {body: `{"enabled": false}`, before: true, wantStatus: http.StatusOK, wantSandbox: false},
		"text for false": {body: `{"enabled": "no"}`, before: true, wantStatus: http.StatusOK, wantSandbox: false},
		"null body":      {body: `null`, wantStatus: http.StatusOK, wantSandbox: true},
		"null":           {body: `{"enabled": null}`, wantStatus: http.StatusUnprocessableEntity, wantSandbox: false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &singleAgentStore{agent: agent.Agent{Status: agent.Stopped, Sandbox: c.before}}
			guard := function.Guard{Authenticator: adminAuthenticator{}}
			h := function.Mux([]function.Served{agents.MigrateSandbox(store, agent.Display{}).Served(guard)})
			req := httptest.NewRequest(http.MethodPost,
				"/api/v1/agents/5b9f8c0a-7d1e-4c53-9a8e-2f64d1a7c3b9/migrate-sandbox", strings.NewReader(c.body))
			req.Header.Set("Authorization", "Bearer token")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			if w.Code != c.wantStatus {
				t.Errorf("status = %d, want %d: %s", w.Code, c.wantStatus, w.Body)
			}
			if store.agent.Sandbox != c.wantSandbox {
				t.Errorf("Sandbox = %t, want %t", store.agent.Sandbox, c.wantSandbox)
			}
		})
	}
}

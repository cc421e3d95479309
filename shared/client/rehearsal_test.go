package client_test

import (
	"io"
	"net/http"
	"testing"

	"agents.example/controlplane/shared/client"
)

// TestDryRun_RehearsesTheCall also checks that the answer of a rehearsal is not taken for an agent.
func TestDryRun_RehearsesTheCall(t *testing.T) {
	t.Parallel()
	s := &schedule{answers: []answer{{body: `{"would": {"status": "stopped", "restarts": false,
		"downtime_seconds_estimate": null}, "agent": {"id": "a", "status": "stopped"}}`}}}
	var rehearsal client.Rehearsal
	a, err := serve(t, s).StopAgent(t.Context(), "a", client.DryRun(&rehearsal))
	if err != nil {
		t.Fatal(err)
	}
	if a.ID != "" {
		t.Errorf("the method returns the agent %q, want an empty one", a.ID)
	}
	if got := s.requests[0].URL.RawQuery; got != "dry_run=true" {
		t.Errorf("the query is %q, want dry_run=true", got)
	}
	if rehearsal.Would.Status != client.AgentStatusStopped || rehearsal.Agent.ID != "a" {
		t.Errorf("the rehearsal is %+v, want that of a stopped agent", rehearsal)
	}
}

func TestDryRun_SendsNoCallThatTheAPIWouldCarryOut(t *testing.T) {
	t.Parallel()
	s := &schedule{answers: []answer{{}}}
	c, dry := serve(t, s), client.DryRun(&client.Rehearsal{})
	_, reveal := c.RevealCredentials(t.Context(), "a", dry)
	_, exec := c.ExecInAgent(t.Context(), "a", client.ExecInAgentRequest{Command: []string{"rm", "/data/x"}}, dry)
	for what, err := range map[string]error{
		"RevealCredentials": reveal,
		"ExecInAgent":       exec,
		"PutAgentFile":      c.PutAgentFile(t.Context(), "a", "/data/x", []byte("x"), dry),
		"DeleteAgentFiles":  c.DeleteAgentFiles(t.Context(), "a", "/data/x", dry),
		"RevokeAPIKey":      c.RevokeAPIKey(t.Context(), "k", client.RevokeAPIKeyParams{}, dry),
	} {
		if err == nil {
			t.Errorf("%s with DryRun returns no error", what)
		}
	}
	if len(s.requests) > 0 {
		t.Errorf("%s %s was sent", http.MethodPost, s.requests[0].URL)
	}
}

// TestDryRun_KeepsTheQueryOfAPath rehearses a call that no method of the client sends.
func TestDryRun_KeepsTheQueryOfAPath(t *testing.T) {
	t.Parallel()
	body := `{"would": {"status": "stopped"}, "agent": {"id": "a"}}`
	s := &schedule{answers: []answer{{body: body}}}
	path := "/api/v1/agents/a/later?mode=new"
	var rehearsal client.Rehearsal
	res, err := serve(t, s).Do(t.Context(), http.MethodPost, path, nil, client.DryRun(&rehearsal))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // only read
	if got, err := io.ReadAll(res.Body); err != nil || string(got) != body {
		t.Errorf("the answer is %q (%v), want %q", got, err, body)
	}
	if rehearsal.Would.Status != client.AgentStatusStopped || rehearsal.Agent.ID != "a" {
		t.Errorf("the rehearsal is %+v, want that of a stopped agent", rehearsal)
	}
	if got := s.requests[0].URL.RawQuery; got != "mode=new&dry_run=true" {
		t.Errorf("the query is %q, want mode=new&dry_run=true", got)
	}
}

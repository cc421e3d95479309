package agentctl_test

import (
	"strings"
	"testing"

	"agents.example/controlplane/functions/agentctl"
)

func TestAPI_SendsRequests(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id := a.RunningAgent(t, org, nil).ID
	a.admin().run(t, "api", "get", "/api/v1/agents?limit=1", "-o", "name").want(t, output{Stdout: "ID\n"})
	file := writeFile(t, "change.json", `{"name": "renamed"}`)
	a.admin().run(t, "api", "PATCH", "/api/v1/agents/"+id, "--data", "@"+file, "-o", "jsonpath={.name}").want(t,
		output{Stdout: "renamed\n"})
	created := a.admin().with(`{"name": "ci"}`).run(t, "api", "POST", "/api/v1/api-keys", "-d", "-", "-i").ok(t)
	status, hasSecret := "HTTP/1.1 201 Created\n", strings.Contains(created.Stdout, `"secret":"so_`)
	if !strings.HasPrefix(created.Stdout, status) || !hasSecret {
		t.Errorf("stdout:\n%s", normal(created.Stdout))
	}
	stale := a.admin().run(t, "api", "PATCH", "/api/v1/agents/"+id, "-d", "@"+file, "-H", `If-Match: "stale"`)
	if stale.Code != agentctl.ExitConflict {
		t.Errorf("a stale version exits with %d, want %d: %s", stale.Code, agentctl.ExitConflict, stale.Stderr)
	}
}

func TestAPI_RefusesSecretsInArguments(t *testing.T) {
	t.Parallel()
	a := serve(t)
	for _, args := range [][]string{
		{"POST", "/api/v1/api-keys", "--data", `{"name": "` + canary + `"}`},
		{"GET", "/api/v1/me", "--header", "Authorization: Bearer " + canary},
		{"GET", "/api/v1/me", "--header", canary},
	} {
		got := a.admin().run(t, append([]string{"api"}, args...)...).check(t)
		if got.Code != agentctl.ExitUsage || got.Stdout != "" {
			t.Errorf("api %v: exit code %d, want %d", args, got.Code, agentctl.ExitUsage)
		}
	}
}

// TestAPI_SendsTheTokenToNoOtherHost refuses paths that name another server.
func TestAPI_SendsTheTokenToNoOtherHost(t *testing.T) {
	t.Parallel()
	a := serve(t)
	for _, path := range []string{"https://other.example/", "//other.example/", "api/v1/me", "/../x"} {
		if got := a.admin().run(t, "api", "GET", path); got.Code == agentctl.ExitOK {
			t.Errorf("api GET %s succeeds: %s", path, got.Stdout)
		}
	}
}

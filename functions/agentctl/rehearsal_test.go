package agentctl_test

import (
	"maps"
	"strings"
	"testing"

	"agents.example/controlplane/functions/functiontest"
)

// TestDryRun_ShowsWhatWouldHappenAndChangesNothing runs every command that has the flag.
func TestDryRun_ShowsWhatWouldHappenAndChangesNothing(t *testing.T) {
	t.Parallel()
	a := serve(t)
	running := a.RunningAgent(t, org, nil)
	a.CallNamed(t, "GetCurrentOrganization", functiontest.AsAdmin(org)) // the first call of a user records the user
	before := a.Documents(t)
	for command, want := range map[string]string{
		"agents update AGENT --name renamed":          "running no running",
		"agents update AGENT --env LEVEL=debug":       "running yes running",
		"agents delete AGENT":                         "deleting no deleting",
		"agents restart AGENT":                        "running yes running",
		"agents pause AGENT":                          "paused no paused",
		"agents resume AGENT":                         "running no running",
		"agents stop AGENT":                           "stopped no stopped",
		"agents start AGENT":                          "running no running",
		"agents migrate-sandbox AGENT":                "running yes running",
		"credentials rotate AGENT":                    "running yes running",
		"secrets set AGENT API_TOKEN --from-env HOME": "running yes running",
	} {
		c := a.admin()
		c.variables = map[string]string{"HOME": "value"}
		args := strings.Fields(strings.ReplaceAll(command, "AGENT", running.ID) + " --dry-run -o jsonpath=")
		args[len(args)-1] += "{.would.status} {.would.restarts} {.agent.status}"
		want = strings.NewReplacer("yes", "true", "no", "false").Replace(want)
		if got := c.run(t, args...).ok(t); got.Stdout != want+"\n" {
			t.Errorf("%s --dry-run prints %q, want %q", command, got.Stdout, want)
		}
	}
	shown := a.admin().run(t, "agents", "stop", running.ID, "--dry-run").ok(t)
	for _, line := range []string{"Status", "stopped", "0.5 -> 0", "nothing was changed"} {
		if !strings.Contains(shown.Stdout+shown.Stderr, line) {
			t.Errorf("the rehearsal has no %q:\n%s%s", line, shown.Stdout, shown.Stderr)
		}
	}
	second := a.admin().run(t, "agents", "create", "second", "--plan", "hobby", "--dry-run").ok(t)
	if !strings.Contains(second.Stdout, "1 -> 2") {
		t.Errorf("the rehearsal of a creation does not count the agent:\n%s", second.Stdout)
	}
	if !maps.Equal(before, a.Documents(t)) {
		t.Error("a rehearsal wrote documents")
	}
}

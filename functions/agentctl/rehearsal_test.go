package agentctl_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"agents.example/controlplane/functions/agentctl"
	"agents.example/controlplane/functions/functiontest"
)

// TestDryRun_ShowsWhatWouldHappenAndChangesNothing runs every command that has the flag.
func TestDryRun_ShowsWhatWouldHappenAndChangesNothing(t *testing.T) {
	t.Parallel()
	a := serve(t)
	running := a.RunningAgent(t, org, nil)
	a.CallNamed(t, "GetCurrentOrganization", functiontest.AsAdmin(org)) // the first call of a user records the user
	a.admin().with("value").run(t, "secrets", "set", running.ID, "OLD_TOKEN").ok(t)
	a.Reconcile(t, running.ID)
	before := a.Documents(t)
	for command, want := range map[string]string{
		"agents update AGENT --name renamed":          "running no running",
		"agents update AGENT --env LEVEL=debug":       "running yes running",
		"agents delete AGENT":                         "deleting no deleting",
		"agents restart AGENT":                        "running yes running",
		"agents pause AGENT":                          "paused no paused",
		"agents resume AGENT":                         "running no running",
		"agents sleep AGENT":                          "paused no paused",
		"agents stop AGENT":                           "stopped no stopped",
		"agents start AGENT":                          "running no running",
		"agents migrate-sandbox AGENT":                "running yes running",
		"credentials rotate AGENT":                    "running yes running",
		"secrets set AGENT API_TOKEN --from-env HOME": "running yes running",
		"secrets unset AGENT OLD_TOKEN":               "running yes running",
		"secrets unset AGENT OTHER_TOKEN":             "running no running",
		"secrets import AGENT -":                      "running yes running",
	} {
		c := a.admin().with("A_TOKEN=1")
		c.variables = map[string]string{"HOME": "value"}
		args := strings.Fields(strings.ReplaceAll(command, "AGENT", running.ID) + " --dry-run -o jsonpath=")
		args[len(args)-1] += "{.would.status} {.would.restarts} {.agent.status}"
		want = strings.NewReplacer("yes", "true", "no", "false").Replace(want)
		if got := c.run(t, args...).ok(t); got.Stdout != want+"\n" {
			t.Errorf("%s --dry-run prints %q, want %q", command, got.Stdout, want)
		}
	}
	shown := a.admin().run(t, "agents", "stop", running.ID, "--dry-run").ok(t)
	wantParts(t, "the rehearsal", shown.Stdout+shown.Stderr, "Status", "stopped", "0.5 -> 0", "nothing was changed")
	second := a.admin().run(t, "agents", "create", "second", "--plan", "hobby", "--dry-run").ok(t)
	if !strings.Contains(second.Stdout, "1 -> 2") {
		t.Errorf("the rehearsal of a creation does not count the agent:\n%s", second.Stdout)
	}
	if !maps.Equal(before, a.Documents(t)) {
		t.Error("a rehearsal wrote documents")
	}
}

// TestDryRun_RehearsesEveryRequestOfACommand uses more keys than fit into one request, the last of which matters.
func TestDryRun_RehearsesEveryRequestOfACommand(t *testing.T) {
	t.Parallel()
	a := serve(t)
	running := a.RunningAgent(t, org, nil)
	a.admin().with(canary).run(t, "secrets", "set", running.ID, "OLD_TOKEN").ok(t)
	a.Reconcile(t, running.ID)
	before := a.Documents(t)
	var keys []string
	var file strings.Builder
	for i := range 20 {
		keys = append(keys, fmt.Sprintf("MISSING_%02d", i))
		fmt.Fprintf(&file, "KEY_%02d=%s\n", i, canary)
	}
	unset := append([]string{"secrets", "unset", running.ID, "--dry-run", "-o", "jsonpath={.would.restarts}"}, keys...)
	for want, args := range map[string][]string{"false\n": unset, "true\n": append(unset, "OLD_TOKEN")} {
		if got := a.admin().run(t, args...).ok(t).Stdout; got != want {
			t.Errorf("unset of %d keys restarts: %q, want %q", len(args)-6, got, want)
		}
	}
	a.admin().with(file.String()+"PORT="+canary).run(t, "secrets", "import", running.ID, "-", "--dry-run").check(t).
		wantCode(t, agentctl.ExitInvalid, "PORT")
	if !maps.Equal(before, a.Documents(t)) {
		t.Error("a rehearsal wrote documents")
	}
}

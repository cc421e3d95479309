package agentctl_test

import (
	"strings"
	"testing"

	"agents.example/controlplane/functions/agentctl"
)

// TestSleep_IsSetShownAndEnded goes through what a person does with an agent that sleeps.
func TestSleep_IsSetShownAndEnded(t *testing.T) {
	t.Parallel()
	a := serve(t)
	defer a.onNudge(t, func(id string) { a.Reconcile(t, id) })() // ends before the test's context
	c := a.admin()
	const policy = "jsonpath={.sleep.after_seconds} {.sleep.wake_on}"
	made := c.run(t, "agents", "create", "one", "--sleep-after", "2h", "--wake-on", "request", "--wait", "-o", policy)
	if made.ok(t).Stdout != "7200 [\"request\"]\n" {
		t.Errorf("the agent sleeps after %q, want 7200 and requests", made.Stdout)
	}
	got := c.run(t, "agents", "get", "one").ok(t)
	if !strings.Contains(got.Stdout, "after 2h without use; woken by requests") {
		t.Errorf("the agent does not say when it sleeps:\n%s", got.Stdout)
	}
	slept := c.run(t, "agents", "sleep", "one", "--wait", "-o", "jsonpath={.status} {.config.status_reason}")
	if slept.ok(t).Stdout != "paused idle\n" {
		t.Errorf("sleep ends with %q, want paused idle", slept.Stdout)
	}
	for command, text := range map[string]string{
		"agents get one":                "asleep (a request wakes it)",
		"agents list":                   "asleep",
		"agents list --status asleep":   "one",
		"agents wait one --for running": "one is asleep, not running",
		"agents wait one":               "To wake it: agentctl agents resume ",
		"agents logs one":               "The agent is asleep",
		"agents diagnose one":           "agent_asleep",
		"agents open one --print":       "A visit of its dashboard wakes it.",
		"agents metrics one":            "Awake 7 days",
	} {
		if got := c.run(t, strings.Fields(command)...); !strings.Contains(got.Stdout+got.Stderr, text) {
			t.Errorf("%s has no %q:\n%s%s", command, text, got.Stdout, got.Stderr)
		}
	}
	c.run(t, "agents", "pause", "one").ok(t)
	c.run(t, "agents", "list", "--status", "asleep", "-o", "name").want(t, output{0, "", ""})
	c.run(t, "agents", "update", "one", "--sleep-after", "never", "--wake-on", "none", "-o", policy).
		want(t, output{0, " []\n", ""})
}

// TestOpen_WakesAnAgentThatSleeps opens a dashboard only when the agent runs again.
func TestOpen_WakesAnAgentThatSleeps(t *testing.T) {
	t.Parallel()
	a := serve(t)
	defer a.onNudge(t, func(id string) { a.Reconcile(t, id) })() // ends before the test's context
	c := a.admin()
	c.run(t, "agents", "create", "one", "--wait").ok(t)
	c.run(t, "agents", "sleep", "one", "--wait").ok(t)
	got, opened := c.person(t, 80, "", "agents", "open", "one", "--direct")
	got.wantCode(t, agentctl.ExitOK, "one is asleep. It is woken", "Opened the dashboard of one.")
	if len(opened) != 1 || !strings.Contains(opened[0], "/handoff?token=") {
		t.Errorf("opened %q, want the link of the running agent", opened)
	}
}

func TestSleep_RefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	c := serve(t).admin()
	for _, args := range []string{
		"--sleep-after 1m", "--sleep-after 200h", "--sleep-after soon", "--sleep-after 5m0.5s", "--wake-on moon",
		"--wake-on none,request",
	} {
		got := c.run(t, strings.Fields("agents create one "+args)...)
		got.wantCode(t, agentctl.ExitUsage)
	}
}

package agentctl_test

import (
	"strings"
	"testing"

	"agents.example/controlplane/functions/agentctl"
)

func TestSchedules_AreSetOneByOne(t *testing.T) {
	t.Parallel()
	c := serve(t).admin()
	c.run(t, "agents", "create", "my-agent", "--plan", "hobby").ok(t)
	prompt := writeFile(t, "prompt.json", `{"p":1}`)
	set := func(flags ...string) output {
		return c.run(t, append([]string{"schedules", "set", "my-agent"}, flags...)...)
	}
	set("daily", "--cron", "30 9 * * MON-FRI", "--timezone", "Europe/Berlin", "--path", "/v1/run",
		"--body", "@"+prompt).ok(t)
	set("check", "--cron", "*/15 * * * *", "--path", "/check", "-o", "name").want(t, output{0, "check\ndaily\n", ""})
	set("check", "--disabled", "--missed", "run_once").ok(t)
	shown := func(path string) string {
		return c.run(t, "schedules", "list", "my-agent", "-o", "jsonpath="+path).ok(t).Stdout
	}
	for path, want := range map[string]string{
		"{[*].id}": "check daily", "{[*].enabled}": "false true", "{[*].missed}": "run_once skip",
		"{[1].body}": `{"p":1}`, "{[*].timezone}": "UTC Europe/Berlin", "{[*].cron}": "*/15 * * * * 30 9 * * MON-FRI",
	} {
		if got := strings.TrimSpace(shown(path)); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	if table := c.run(t, "schedules", "list", "my-agent").ok(t).Stdout; !strings.Contains(table, "disabled") {
		t.Errorf("the table does not say what is disabled:\n%s", table)
	}
	set("daily", "--cron", "60 9 * * *").wantCode(t, agentctl.ExitInvalid, "minute, hour")
	set("other", "--cron", "0 9 * * *").wantCode(t, agentctl.ExitUsage, "--path")
	dry := set("daily", "--path", "/other", "--dry-run").ok(t)
	if !strings.Contains(dry.Stdout, "Restarts:  no") || strings.TrimSpace(shown("{[1].path}")) != "/v1/run" {
		t.Errorf("a rehearsal printed %q", dry.Stdout)
	}
	c.run(t, "schedules", "remove", "my-agent", "check", "-o", "name").want(t, output{0, "daily\n", ""})
	c.run(t, "schedules", "remove", "my-agent", "daily", "check").wantCode(t, agentctl.ExitUsage, "no schedule check")
	c.run(t, "schedules", "list", "my-agent", "-o", "name").want(t, output{0, "daily\n", ""})
	c.run(t, "schedules", "remove", "my-agent", "check").wantCode(t, agentctl.ExitUsage, "no schedule")
}

func TestSchedules_SetWhenAnAgentIsWoken(t *testing.T) {
	t.Parallel()
	c := serve(t).admin()
	c.run(t, "agents", "create", "my-agent", "--plan", "hobby").ok(t)
	wake := func(at string) output {
		return c.run(t, "schedules", "wake-at", "my-agent", at, "-o", "jsonpath={.wake_at}")
	}
	wake("2h").ok(t)
	wakeAt := func() string {
		return strings.TrimSpace(c.run(t, "agents", "get", "my-agent", "-o", "jsonpath={.wake_at}").ok(t).Stdout)
	}
	if got := wakeAt(); len(got) < len("2026-03-02T09:30:00Z") {
		t.Errorf("wake_at is %q", got)
	}
	wake("never").ok(t)
	if got := wakeAt(); got != "" {
		t.Errorf("after never, wake_at is %q", got)
	}
	wake("tomorrow").wantCode(t, agentctl.ExitUsage, "duration")
	wake("10000h").wantCode(t, agentctl.ExitInvalid, "366 days")
	c.run(t, "agents", "update", "my-agent", "--wake-on", "request").ok(t)
	wake("2h").wantCode(t, agentctl.ExitConflict, "sleep.wake_on")
}

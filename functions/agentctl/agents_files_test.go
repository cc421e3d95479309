package agentctl_test

import (
	"strings"
	"testing"

	"agents.example/controlplane/functions/agentctl"
)

// TestAgents_HaveFiles gives an agent files, changes one of them, and takes one away. The others stay.
func TestAgents_HaveFiles(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := a.admin()
	local := writeFile(t, "prompt.md", "Be brief.")
	const files = `jsonpath={.files[*].path} {.files[*].mode} {.files[*].size}`
	want := func(text string) {
		t.Helper()
		if got := c.run(t, "agents", "get", "my-agent", "-o", files).ok(t); strings.TrimSpace(got.Stdout) != text {
			t.Errorf("files %q, want %q", got.Stdout, text)
		}
	}
	c.run(t, "agents", "create", "my-agent", "--file", "/config/a:b=@"+local, "--file",
		"/data/run.sh:0755=@"+local).ok(t)
	want("/config/a:b /data/run.sh 0644 0755 9 9")
	c.run(t, "agents", "update", "my-agent", "--file", "/data/c=@"+local, "--unset-file", "/config/a:b").ok(t)
	want("/data/c /data/run.sh 0644 0755 9 9")
	if shown := c.run(t, "agents", "get", "my-agent").ok(t); !strings.Contains(shown.Stdout, "/data/c, /data/run.sh") {
		t.Errorf("the agent has no files:\n%s", shown.Stdout)
	}
	for flag, text := range map[string]string{
		"/data/a":             "want PATH=@LOCAL or PATH=secret:KEY",
		"/data/a=text":        "want PATH=@LOCAL or PATH=secret:KEY",
		"/data/a=@/missing":   "no such file",
		"/data/a=secret:NONE": "the agent has no secret with this key",
		"/etc/a=@" + local:    "--file",
	} {
		got := c.run(t, "agents", "update", "my-agent", "--file", flag)
		if got.Code == 0 || !strings.Contains(got.Stderr, text) {
			t.Errorf("--file %s: exit code %d, %s; want %q", flag, got.Code, got.Stderr, text)
		}
	}
	want("/data/c /data/run.sh 0644 0755 9 9")
}

// TestAgents_KeepTheDigitsOfTheirConfig sends numbers that no float64 can hold, and reads them back.
func TestAgents_KeepTheDigitsOfTheirConfig(t *testing.T) {
	t.Parallel()
	c := serve(t).admin()
	c.run(t, "agents", "create", "my-agent", "--config", `{"chat": 9007199254740993, "key": 123456789012345678901}`).ok(t)
	want := func(chat, key string) {
		t.Helper()
		const numbers = "jsonpath={.config.chat} {.config.key}"
		c.run(t, "agents", "get", "my-agent", "-o", numbers).want(t, output{0, chat + " " + key + "\n", ""})
	}
	want("9007199254740993", "123456789012345678901")
	asYAML := c.run(t, "agents", "get", "my-agent", "-o", "yaml").ok(t).Stdout
	wantParts(t, "the YAML", asYAML, "\n  chat: 9007199254740993\n", "\n  key: 123456789012345678901\n")
	c.with(`{"chat": 9007199254740995, "key": 1}`).
		run(t, "agents", "update", "my-agent", "--config-file", "-").ok(t)
	want("9007199254740995", "1")
	c.run(t, "agents", "update", "my-agent", "--config", `{} {}`).wantCode(t, agentctl.ExitUsage, "more than one")
}

// TestAgents_RefuseWhatIsNotText: JSON would replace the bytes, and the agent would get other ones.
func TestAgents_RefuseWhatIsNotText(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := a.admin().with("NAME=caf\xe9")
	a.RunningAgent(t, org, nil)
	local := writeFile(t, "latin1", `{"name": "caf`+"\xe9\"}")
	for _, args := range [][]string{
		{"agents", "create", "other", "--env-file", "-"},
		{"agents", "create", "other", "--config-file", local},
		{"agents", "update", "test", "--file", "/data/a=@" + local},
		{"agents", "exec", "test", "--stdin", "--", "cat"},
		{"schedules", "set", "test", "daily", "--cron", "0 9 * * *", "--path", "/", "--body", "@" + local},
	} {
		c.run(t, args...).wantCode(t, agentctl.ExitInvalid, "is no text in UTF-8")
	}
	c.run(t, "agents", "create", "other", "--env", "NAME=caf\xe9").wantCode(t, agentctl.ExitFailed, "not in UTF-8")
	c.run(t, "agents", "list", "-o", "jsonpath={[*].name}").want(t, output{0, "test\n", ""})
}

// TestAgents_ReadStandardInputOnce refuses a second flag that reads standard input, and would find it empty.
func TestAgents_ReadStandardInputOnce(t *testing.T) {
	t.Parallel()
	c := serve(t).admin()
	c.with("Be brief.").run(t, "agents", "create", "my-agent", "--file", "/data/a=@-", "--file", "/data/b=@-").
		wantCode(t, agentctl.ExitUsage, "two flags read standard input")
	c.run(t, "agents", "list", "-o", "name").want(t, output{0, "", ""})
	c.with("Be brief.").run(t, "agents", "create", "my-agent", "--file", "/data/a=@-").ok(t)
	c.run(t, "agents", "get", "my-agent", "-o", "jsonpath={.files[*].size}").want(t, output{0, "9\n", ""})
}

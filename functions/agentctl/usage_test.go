package agentctl_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"agents.example/controlplane/functions/agentctl"
)

// everyCommand calls f for each command of the tree.
func everyCommand(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		everyCommand(sub, f)
	}
}

// TestUsage_NeverRepeatsArguments gives every command an argument too many: a value that was typed by mistake may be a
// secret, and standard error may be a stored log.
func TestUsage_NeverRepeatsArguments(t *testing.T) {
	t.Parallel()
	// Commands that take any number of arguments call it. Without an answer they would try again for seconds.
	refusing := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(refusing.Close)
	offline := tool{url: refusing.URL, token: "so_unused"}
	ran := 0
	everyCommand((&agentctl.App{}).Root(), func(c *cobra.Command) {
		if strings.Contains(c.Use, "[ARGUMENT...]") { // the command of a container may have any
			return
		}
		args := strings.Fields(c.CommandPath())[1:]
		for range regexp.MustCompile(` \[?[A-Z_]+\b`).FindAllString(c.Use, -1) {
			args = append(args, "x")
		}
		for _, value := range []string{canary, "-z" + canary} {
			t.Run(c.CommandPath()+" "+value, func(t *testing.T) {
				t.Parallel()
				got := offline.run(t, append(slices.Clip(args), value)...).check(t)
				takesAny := strings.Contains(c.Use, "AGENT...") || strings.Contains(c.Use, "KEY_ID...") ||
					strings.Contains(c.Use, "SCHEDULE...")
				if c.Runnable() && !takesAny && got.Code != agentctl.ExitUsage {
					t.Errorf("exit code %d, want %d: %s", got.Code, agentctl.ExitUsage, got.Stderr)
				}
			})
		}
		ran++
	})
	if ran < 50 {
		t.Errorf("the tree has only %d commands", ran)
	}
}

func TestUsage_SaysWhatWouldBeRight(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"login", canary}, "agentctl login wants no arguments, but got one\n"},
		{[]string{"agents", "get", "a", canary}, "agentctl agents get wants AGENT, but got 2 arguments\n"},
		{[]string{"secrets", "set", "a", "KEY", canary}, "A value must not be an argument. Pipe it to the command.\n"},
		{[]string{"lgin"}, "agentctl has no such command\nDid you mean login?\n"},
		{[]string{"help", "agents", canary}, "agentctl help takes the name of a command\n"},
		{[]string{"completion", "bash", canary}, "agentctl completion bash wants no arguments, but got one\n"},
		{[]string{"agents", "list", "-zx"}, "unknown flag: -z\n"},
	} {
		tool{}.run(t, row.args...).check(t).wantCode(t, agentctl.ExitUsage, row.want)
	}
	tool{}.run(t, "help", "agents", "list").ok(t)
	tool{}.run(t, "help").ok(t)
}

func TestUsage_RefusesFlagsThatExcludeEachOther(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"agents logs x --follow --previous", "agents stop x --dry-run --wait", "secrets import x - --dry-run --wait",
		"secrets unset x KEY --dry-run --wait", "webhooks update x --type agent.error --all-types",
	} {
		tool{}.run(t, strings.Fields(line)...).wantCode(t, agentctl.ExitUsage, "none of the others can be")
	}
}

func TestCompletion_KnowsAgentsAndKeys(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id := a.RunningAgent(t, org, nil).ID
	a.admin().with(canary).run(t, "secrets", "set", id, "TOKEN").ok(t)
	for _, row := range []struct {
		want string
		args []string
	}{
		{"test\trunning\n:4\n", []string{"secrets", "list", ""}},
		{"TOKEN\n:4\n", []string{"secrets", "unset", "test", ""}},
		{"script\nci\nsdk\nmcp\nplayground\nother\n:4\n", []string{"keys", "create", "--purpose", ""}},
		{"admin\nmember\n:4\n", []string{"keys", "create", "--role", ""}},
		{"table\njson\nyaml\nname\njsonpath=\n:4\n", []string{"agents", "list", "-o", ""}},
		{"auto\nalways\nnever\n:4\n", []string{"agents", "list", "--color", ""}},
		{
			"hobby\nstarter\nstartup\npro\nbusiness\nenterprise\n:4\n",
			[]string{"agents", "list", "--plan", ""},
		},
		{":0\n", []string{"secrets", "import", "test", ""}},
	} {
		if got := a.admin().run(t, append([]string{"__complete"}, row.args...)...).ok(t).Stdout; got != row.want {
			t.Errorf("completion of %q = %q, want %q", row.args, got, row.want)
		}
	}
}

func TestCompletion_IsEmptyWithoutTheAPI(t *testing.T) {
	t.Parallel()
	got := tool{url: "http://127.0.0.1:1", token: "so_unused"}.run(t, "__complete", "secrets", "list", "").ok(t)
	if got.Stdout != ":4\n" {
		t.Errorf("completion = %q, want none", got.Stdout)
	}
}

package agentctl_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"agents.example/controlplane/functions/agentctl"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/plan"
)

// person runs the tool as a person does: standard output and standard error are terminals of a width.
func (c tool) person(t *testing.T, width int, stdin string, args ...string) (out output, opened []string) {
	t.Helper()
	app, stdout, stderr := c.with(stdin).app(t)
	app.Terminal = agentctl.Terminal{In: true, Out: true, Err: true, Width: func() int { return width }}
	app.Open = func(url string) error {
		opened = append(opened, url)
		if path, isFile := strings.CutPrefix(url, "file://"); isFile {
			opened = append(opened, privatePage(t, path))
		}
		return nil
	}
	code := app.Run(t.Context(), args)
	return output{code, stdout.String(), stderr.String()}, opened
}

// privatePage returns the content of a file that only its user can read.
func privatePage(t *testing.T, path string) string {
	t.Helper()
	for name, want := range map[string]fs.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want the mode %v", name, info, err, want)
		}
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return string(page)
}

func (o output) wantCode(t *testing.T, code int, stderr ...string) {
	t.Helper()
	if o.Code != code {
		t.Errorf("exit code %d, want %d: %s%s", o.Code, code, o.Stdout, o.Stderr)
	}
	wantParts(t, "standard error", o.Stderr, stderr...)
}

func TestAgents_LiveFromCreateToDelete(t *testing.T) {
	t.Parallel()
	a := serve(t)
	defer a.onNudge(t, func(id string) { a.Reconcile(t, id) })() // ends before the test's context
	c := a.admin()
	created := c.run(t, "agents", "create", "my-agent", "--plan", "hobby", "--env", "LOG_LEVEL=info", "--wait",
		"-o", "json").ok(t)
	var agent struct{ ID, Status string }
	if err := json.Unmarshal([]byte(created.Stdout), &agent); err != nil || agent.Status != "running" {
		t.Fatalf("standard output is no running agent (%v):\n%s", err, created.Stdout)
	}
	wantParts(t, "the progress", created.Stderr,
		"my-agent is provisioning\n", "stage ready succeeded", "my-agent is running\n")
	c.run(t, "agents", "get", "my-agent", "-o", "jsonpath={.config.plan_limits.memory_bytes} {.error_message}").
		want(t, output{0, "1073741824\n", ""})
	c.run(t, "agents", "list", "-o", "name").want(t, output{0, "ID\n", ""})
	for _, step := range []struct{ action, status string }{
		{"pause", "paused"}, {"resume", "running"}, {"stop", "stopped"}, {"start", "running"},
	} {
		got := c.run(t, "agents", step.action, "my-agent", "--wait", "-o", "jsonpath={.status}").ok(t)
		if got.Stdout != step.status+"\n" {
			t.Errorf("%s ends with %q, want %s", step.action, got.Stdout, step.status)
		}
	}
	c.run(t, "agents", "update", agent.ID, "--unset-env", "LOG_LEVEL", "-o", "jsonpath={.env_vars}").
		want(t, output{0, "{}\n", ""})
	c.run(t, "agents", "delete", "my-agent", "--yes", "-o", "jsonpath={.status}").want(t, output{0, "deleting\n", ""})
}

func TestAgents_ShowsTables(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := a.admin()
	c.run(t, "agents", "list").want(t, output{0, "", "There are no such agents. Create one: agentctl agents create " +
		"NAME --plan hobby\n"})
	c.run(t, "agents", "create", "Über 机器人 agent with a long name").ok(t)
	got, _ := c.person(t, 80, "", "agents", "list")
	got.wantCode(t, 0)
	for line := range strings.Lines(got.Stdout) {
		line = regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(line, "")
		if wide := strings.Count(line, "机") + strings.Count(line, "器") + strings.Count(line, "人"); len([]rune(
			strings.TrimRight(line, "\n")))+wide > 80 {
			t.Errorf("the line is wider than the terminal: %q", line)
		}
	}
	if !strings.Contains(got.Stdout, "…") || !strings.Contains(got.Stdout, "\x1b[33mprovisioning\x1b[0m") {
		t.Errorf("the table has no cut name or no color:\n%q", got.Stdout)
	}
	c.variables = map[string]string{"NO_COLOR": "1", "LANG": "C"}
	if got, _ := c.person(t, 80, "", "agents", "list"); strings.ContainsAny(got.Stdout, "\x1b…") {
		t.Errorf("NO_COLOR and LANG=C have no effect:\n%q", got.Stdout)
	}
	if got := c.run(t, "agents", "list").ok(t); !strings.Contains(got.Stdout, "Über 机器人 agent with a long name") {
		t.Errorf("a pipe gets a cut table:\n%s", got.Stdout)
	}
}

func TestErrors_SayWhatToDo(t *testing.T) {
	t.Parallel()
	a := serve(t)
	a.SetPlan(t, "org-small", plan.Hobby)
	a.PutImages(t)
	admin, small := a.admin(), a.as(functiontest.AdminToken("org-small"))
	admin.run(t, "agents", "create", "twin").ok(t)
	admin.run(t, "agents", "create", "twin").ok(t)
	admin.run(t, "agents", "create", "one").ok(t)
	small.run(t, "agents", "create", "first").ok(t)
	offline := tool{url: "http://" + closedAddress(t), token: "so_x"}
	for _, test := range []struct {
		as   tool
		args string
		code int
		say  []string
	}{
		{
			as: a.as("so_wrong"), args: "agents list", code: agentctl.ExitNoSession,
			say: []string{"AGENTS_API_KEY", "agentctl login"},
		},
		{
			as: a.as(functiontest.MemberToken(org)), args: "agents create x", code: agentctl.ExitNotAllowed,
			say: []string{"Ask an admin"},
		},
		{
			as: small, args: "agents create second", code: agentctl.ExitNotAllowed,
			say: []string{"hobby", "billing checkout"},
		},
		{
			as: admin, args: "agents create x --image assistant", code: agentctl.ExitNotAllowed,
			say: []string{"--plan starter", "agentctl billing plans"},
		},
		{as: admin, args: "agents get nothing", code: agentctl.ExitNotFound, say: []string{"agentctl agents list"}},
		{
			as: admin, args: "agents get 00000000-0000-4000-8000-000000000000", code: agentctl.ExitNotFound,
			say: []string{"Status 404 agent_not_found, request "},
		},
		{
			as: admin, args: "agents get twin", code: agentctl.ExitUsage,
			say: []string{"2 agents have the name", "use one of the ids"},
		},
		{
			as: admin, args: "agents resume one --if-match \"9\"", code: agentctl.ExitConflict,
			say: []string{"Read the object again"},
		},
		{as: admin, args: "agents resume one --if-match=", code: agentctl.ExitUsage, say: []string{"want the ETag"}},
		{as: admin, args: "org update --exec off --if-match=", code: agentctl.ExitUsage, say: []string{"the ETag"}},
		{
			as: admin, args: "agents pause one", code: agentctl.ExitConflict,
			say: []string{"Possible now: stop, delete."},
		},
		{
			as: admin, args: "agents create x --plan nope --env PATH=x", code: agentctl.ExitInvalid,
			say: []string{"--plan: Input should be", "variable PATH: the key is reserved"},
		},
		{as: admin, args: "agents delete one", code: agentctl.ExitUsage, say: []string{"add --yes"}},
		{as: admin, args: "agents lst", code: agentctl.ExitUsage, say: []string{"Did you mean get or list?"}},
		{as: admin, args: "agents list --nam x", code: agentctl.ExitUsage, say: []string{"Did you mean --name?"}},
		{as: admin, args: "agents get", code: agentctl.ExitUsage, say: []string{"wants AGENT, but got none"}},
		{as: admin, args: "agents list --color pink", code: agentctl.ExitUsage, say: []string{"auto, always or never"}},
		{
			as: admin, args: "agents wait one --timeout 1ms", code: agentctl.ExitTimeout,
			say: []string{"time limit of --timeout"},
		},
		{
			as: offline, args: "agents list", code: agentctl.ExitUnavailable,
			say: []string{"refuses connections", "Check the network"},
		},
	} {
		t.Run(test.args, func(t *testing.T) {
			t.Parallel()
			got := test.as.run(t, strings.Fields(test.args)...)
			got.wantCode(t, test.code, append(test.say, "Error: ")...)
			if got.Stdout != "" {
				t.Errorf("an error prints to standard output: %q", got.Stdout)
			}
		})
	}
}

func TestCreate_RefusesSecretsAsArguments(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := a.admin()
	for _, variable := range []string{"API_KEY=hunter2", "HARMLESS=ghp_abcdefghijklmnopqrstuvwx"} {
		got := c.run(t, "agents", "create", "x", "--env", variable)
		got.wantCode(t, agentctl.ExitUsage, "looks like a secret", "--env-file")
		_, value, _ := strings.Cut(variable, "=")
		if strings.Contains(got.Stderr, value) {
			t.Errorf("the error repeats the value: %s", got.Stderr)
		}
	}
	c.variables = map[string]string{"API_KEY": "hunter2"}
	c.run(t, "agents", "create", "x", "--env", "API_KEY", "-o", "jsonpath={.env_vars.API_KEY}").
		want(t, output{0, "gsm\n", ""})
	c.with("TOKEN='a b'\n").run(t, "agents", "create", "y", "--env-file", "-", "-o", "jsonpath={.env_vars.TOKEN}").
		want(t, output{0, "gsm\n", ""})
}

func TestWait_FailsWithTheReason(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := a.admin()
	created := c.run(t, "agents", "create", "bad", "-o", "name").ok(t)
	failAgent(t, a, strings.TrimSpace(created.Stdout))
	got := c.run(t, "agents", "wait", "bad")
	got.wantCode(t, agentctl.ExitUnsettled, "bad is in error at the stage ready: It exits. (pod_crash_loop)",
		"agentctl agents diagnose")
	if got.Stdout != "" {
		t.Errorf("a failed wait prints to standard output: %q", got.Stdout)
	}
	c.run(t, "agents", "wait", "bad", "-o", "jsonpath={.status}").wantCode(t, agentctl.ExitUnsettled)
	diagnosed := c.run(t, "agents", "diagnose", "bad").ok(t)
	wantParts(t, "the diagnosis", diagnosed.Stdout,
		"pod_crash_loop: It exits.", "Next: you", "you can", "agentctl agents logs", "What happened:",
		"The agent failed. It exits.")
}

func TestPerson_DeletesByNameAndSeesNoControlCharacters(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := a.admin()
	created := c.run(t, "agents", "create", "evil", "-o", "name").ok(t)
	renameAgent(t, a, strings.TrimSpace(created.Stdout), "evil\x1b[2J\u202e")
	got, _ := c.person(t, 120, "", "agents", "list")
	if strings.Contains(got.Stdout, "\x1b[2J") || !strings.Contains(got.Stdout, `evil\x1b[2J\u202e`) {
		t.Errorf("the name controls the terminal: %q", got.Stdout)
	}
	renameAgent(t, a, strings.TrimSpace(created.Stdout), "evil")
	refused, _ := c.person(t, 120, "yes\n", "agents", "delete", "evil")
	refused.wantCode(t, agentctl.ExitFailed, "nothing was deleted")
	deleted, _ := c.person(t, 120, "evil\n", "agents", "delete", "evil")
	deleted.wantCode(t, agentctl.ExitOK)
}

func TestOpen_UsesTheLinkOfASession(t *testing.T) {
	t.Parallel()
	a := serve(t)
	defer a.onNudge(t, func(id string) { a.Reconcile(t, id) })() // ends before the test's context
	c := a.admin()
	c.run(t, "agents", "create", "one", "--wait").ok(t)
	got, opened := c.person(t, 80, "", "agents", "open", "one")
	got.wantCode(t, agentctl.ExitOK, "Opened the dashboard of one.")
	if len(opened) != 2 || !strings.HasPrefix(opened[0], "file:///") || strings.Contains(opened[0], "token") ||
		!strings.Contains(opened[1], `content="0; url=https://`) || !strings.Contains(opened[1], "/handoff?token=") {
		t.Fatalf("opened %q, want a file with a link that signs in", opened)
	}
	if _, err := os.Stat(filepath.Dir(strings.TrimPrefix(opened[0], "file://"))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file with the link is still there: %v", err)
	}
	got, opened = c.person(t, 80, "", "agents", "open", "one", "--direct")
	got.wantCode(t, agentctl.ExitOK, "Opened the dashboard of one.")
	if len(opened) != 1 || !strings.HasPrefix(opened[0], "https://") {
		t.Errorf("opened %q with --direct, want the link", opened)
	}
	_, key := a.CreateKey(t, org)
	printed, opened := a.as(key).person(t, 80, "", "agents", "open", "one")
	printed.wantCode(t, agentctl.ExitOK, "agentctl credentials reveal")
	if len(opened) != 0 || !strings.HasPrefix(printed.Stdout, "https://one-") {
		t.Errorf("opened %q and printed %q, want the address", opened, printed.Stdout)
	}
}

func TestMetrics_ShowsWhatIsMissing(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := a.admin()
	c.run(t, "agents", "create", "one").ok(t)
	got := c.run(t, "agents", "metrics", "one", "--window", "1h").ok(t)
	if !strings.HasPrefix(normal(got.Stdout), "CPU  -  -\n") || !strings.Contains(got.Stdout, "Not measured yet") {
		t.Errorf("metrics without a measurement:\n%s", got.Stdout)
	}
}

func TestHelp_ListsEveryExitCode(t *testing.T) {
	t.Parallel()
	help := tool{}.run(t, "help", "exit-codes").ok(t).Stdout
	wantParts(t, "the help", help,
		"0  The command", "2  The command line", "9  The command waited", "124  The time", "130  The user")
}

func TestAgents_HavePublicPaths(t *testing.T) {
	t.Parallel()
	c := serve(t).admin()
	const paths = "jsonpath={.public_paths[*]}"
	c.run(t, "agents", "create", "my-agent", "--plan", "hobby", "--public-path", "/telegram", "--public-path", "/a,/b",
		"-o", paths).want(t, output{0, "/a /b /telegram\n", ""})
	if got := c.run(t, "agents", "get", "my-agent").ok(t); !strings.Contains(got.Stdout, "/a, /b, /telegram") {
		t.Errorf("the agent has no public paths:\n%s", got.Stdout)
	}
	update := func(flags ...string) output {
		return c.run(t, append([]string{"agents", "update", "my-agent", "-o", paths}, flags...)...)
	}
	update("--public-path", "/hooks/").want(t, output{0, "/hooks/\n", ""})
	update("--name", "my-agent").want(t, output{0, "/hooks/\n", ""})
	update("--public-path", "/v1/x").wantCode(t, agentctl.ExitInvalid, "/v1")
	update("--no-public-paths").want(t, output{0, "\n", ""})
}

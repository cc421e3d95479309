package cloud_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/functions/agentctl"
)

// agentctl runs a command line against the deployment and returns its standard output. The command must succeed, and
// must not print a value on standard error.
func (d deployment) agentctl(t *testing.T, stdin, value string, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	app := &agentctl.App{
		Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr, ConfigDir: t.TempDir(), Now: time.Now,
		Lookup: func(name string) (string, bool) {
			set := map[string]string{"AGENTS_BASE_URL": d.Ready.BaseURL, "AGENTS_API_KEY": d.Ready.APIKey}
			value, ok := set[name]
			return value, ok
		},
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	code := app.Run(ctx, args)
	if strings.Contains(stderr.String(), value) {
		t.Errorf("agentctl %s prints the value on standard error", strings.Join(args, " "))
	}
	if code != agentctl.ExitOK {
		t.Fatalf("agentctl %s: exit code %d: %s", strings.Join(args, " "), code, stderr.String())
	}
	return stdout.String()
}

// testCommandLine sets, imports and removes secrets, and rotates credentials, with the command line tool.
func testCommandLine(t *testing.T, d deployment) {
	t.Helper()
	const value = "command-line-canary"
	run := func(stdin string, args ...string) string {
		t.Helper()
		return d.agentctl(t, stdin, value, args...)
	}
	id := d.create(t, `{"name": "command line", "resource_plan": "hobby"}`)
	d.awaitStatus(t, id, "running")

	if got := run(value+"\n", "secrets", "set", id, "TOKEN", "--wait"); !strings.Contains(got, "succeeded") {
		t.Errorf("secrets set --wait prints\n%s", got)
	}
	run("FIRST="+value+"\nexport SECOND='"+value+"'\n", "secrets", "import", id, "-", "--wait")
	inSync := run("", "secrets", "list", id, "-o", "jsonpath={[*].key} {[*].in_sync}")
	if want := "FIRST SECOND TOKEN true true true\n"; inSync != want {
		t.Errorf("secrets list = %q, want %q", inSync, want)
	}

	password := func() string {
		t.Helper()
		return run("", "credentials", "reveal", id, "-o", "jsonpath={.dashboard_password}")
	}
	before := password()
	if got := run("", "credentials", "rotate", id, "--wait"); !strings.Contains(got, "done") {
		t.Errorf("credentials rotate --wait prints\n%s", got)
	}
	if after := password(); after == before || strings.TrimSpace(after) == "" {
		t.Error("the password is the same after the rotation")
	}

	run("", "secrets", "unset", id, "TOKEN", "FIRST", "SECOND", "--wait")
	if got := run("", "secrets", "list", id, "-o", "name"); got != "" {
		t.Errorf("secrets list = %q after all were removed", got)
	}
}

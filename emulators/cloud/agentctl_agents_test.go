package cloud_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/functions/agentctl"
)

// testAgentCommands creates an agent with the command line tool, lets it crash, repairs it and deletes it.
func testAgentCommands(t *testing.T, d deployment) {
	t.Helper()
	run := func(args ...string) (code int, stdout, stderr string) {
		t.Helper()
		var out, errs bytes.Buffer
		app := &agentctl.App{
			Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, ConfigDir: t.TempDir(), Now: time.Now,
			Lookup: func(name string) (string, bool) {
				set := map[string]string{"AGENTS_BASE_URL": d.Ready.BaseURL, "AGENTS_API_KEY": d.Ready.APIKey}
				value, ok := set[name]
				return value, ok
			},
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		code = app.Run(ctx, args)
		return code, out.String(), errs.String()
	}
	check := func(wantCode int, want string, args ...string) {
		t.Helper()
		code, stdout, stderr := run(args...)
		if code != wantCode || !strings.Contains(stdout+stderr, want) {
			t.Fatalf("agentctl %s: exit code %d, want %d and %q:\n%s%s", strings.Join(args, " "), code, wantCode, want,
				stdout, stderr)
		}
	}
	file := filepath.Join(t.TempDir(), "agents.yaml")
	described := func(agents string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("manifest: story\nagents: "+agents), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	described("{described: {env_vars: {LOG_LEVEL: info}, public_paths: [/hook]}}")
	check(agentctl.ExitOK, "described is running", "apply", "-f", file, "--wait")
	described("{described: {env_vars: {LOG_LEVEL: debug}}}")
	check(agentctl.ExitDiffers, "LOG_LEVEL: (another value) -> debug", "apply", "-f", file, "--dry-run")
	check(agentctl.ExitOK, "described is running", "apply", "-f", file, "--wait")
	check(agentctl.ExitOK, "Nothing differs", "apply", "-f", file, "--dry-run")
	described("{}")
	check(agentctl.ExitOK, "being deleted", "apply", "-f", file, "--prune", "--yes", "--wait")

	const name = "typed by a person"
	code, id, stderr := run("agents", "create", name, "--plan", "hobby", "--wait", "-o", "name")
	id = strings.TrimSpace(id)
	if code != agentctl.ExitOK || !strings.Contains(stderr, "stage ready succeeded") {
		t.Fatalf("create --wait: exit code %d:\n%s", code, stderr)
	}
	check(agentctl.ExitOK, "serving", "agents", "logs", name, "--tail", "50")
	check(agentctl.ExitTimeout, "serving", "agents", "logs", name, "--follow", "--timeout", "5s")

	injectPodFault(t, d, id, cluster.CrashLoop)
	check(agentctl.ExitUnsettled, "pod_crash_loop", "agents", "restart", name, "--wait")
	check(agentctl.ExitOK, "pod_crash_loop", "agents", "diagnose", name)
	injectPodFault(t, d, id, "")
	check(agentctl.ExitOK, "running", "agents", "restart", name, "--wait")
	check(agentctl.ExitOK, "Nothing of it is left", "agents", "delete", name, "--yes", "--wait")
	check(agentctl.ExitNotFound, "", "agents", "get", name)

	code, receipt, stderr := run("agents", "receipt", id, "-o", "json")
	if code != agentctl.ExitOK {
		t.Fatalf("agents receipt: exit code %d:\n%s", code, stderr)
	}
	file = filepath.Join(t.TempDir(), "receipt.json")
	if err := os.WriteFile(file, []byte(receipt), 0o600); err != nil {
		t.Fatal(err)
	}
	check(agentctl.ExitOK, "The receipt is valid.", "verify", file)
}

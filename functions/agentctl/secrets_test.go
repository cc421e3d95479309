package agentctl_test

import (
	"fmt"
	"strings"
	"testing"

	"agents.example/controlplane/functions/agentctl"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
)

// canary is a value that no output may have.
const canary = "canary-7f3b9"

// check fails the test if an output has the canary.
func (o output) check(t *testing.T) output {
	t.Helper()
	if strings.Contains(o.Stdout+o.Stderr, canary) {
		t.Errorf("the output has the value:\nstdout: %s\nstderr: %s", o.Stdout, o.Stderr)
	}
	return o
}

// stored returns the first value that the secret store has for a key of an agent.
func (a *api) stored(t *testing.T, agentID, key string) string {
	t.Helper()
	value, err := a.SecretStore.Read(t.Context(), agentID, key, 1)
	if err != nil {
		t.Fatal(err)
	}
	return string(value)
}

func TestSecrets_SetTakesTheValueFromEverySourceButArguments(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id := a.RunningAgent(t, org, nil).ID
	file := writeFile(t, "value", "-----BEGIN-----\n"+canary+"\n")
	c := a.admin()
	c.variables = map[string]string{"LOCAL": canary}
	for _, row := range []struct {
		key, stdin, want string
		flags            []string
	}{
		{key: "PIPED", stdin: canary + "\n", want: canary},
		{key: "EXACT", stdin: " " + canary + " ", want: " " + canary + " "},
		{key: "FILE", flags: []string{"--from-file", file}, want: "-----BEGIN-----\n" + canary + "\n"},
		{key: "VARIABLE", flags: []string{"--from-env", "LOCAL"}, want: canary},
	} {
		c.with(row.stdin).run(t, append([]string{"secrets", "set", "test", row.key}, row.flags...)...).ok(t).check(t)
		if got := a.stored(t, id, row.key); got != row.want {
			t.Errorf("%s = %q, want %q", row.key, got, row.want)
		}
	}
}

func TestSecrets_SetRefusesValuesAsArguments(t *testing.T) {
	t.Parallel()
	a := serve(t)
	a.RunningAgent(t, org, nil)
	for _, args := range [][]string{
		{"test", "TOKEN=" + canary},
		{"test", "TOKEN", canary},
		{"test", canary},
		{"test", canary + "=="},
		{"test", "TOKEN", "--from-env", canary},
		{"test", "TOKEN", "--value=" + canary},
		{"test", "TOKEN", "-o", "name", "--", canary},
	} {
		got := a.admin().with("x").run(t, append([]string{"secrets", "set"}, args...)...).check(t)
		if got.Code != agentctl.ExitUsage || got.Stdout != "" {
			t.Errorf("secrets set %v: exit code %d, stdout %q; want %d", args, got.Code, got.Stdout, agentctl.ExitUsage)
		}
	}
	got := a.admin().run(t, "secrets", "unset", "test", "TOKEN="+canary).check(t)
	if got.Code != agentctl.ExitUsage {
		t.Errorf("secrets unset exits with %d, want %d", got.Code, agentctl.ExitUsage)
	}
}

func TestSecrets_RefuseValuesThatCannotBeStored(t *testing.T) {
	t.Parallel()
	a := serve(t)
	a.RunningAgent(t, org, nil)
	for name, row := range map[string]struct{ value, want string }{
		"empty":    {"", "the value is empty"},
		"line":     {"\n", "the value is empty"},
		"long":     {strings.Repeat(canary, 6000), "longer than 65536 bytes"},
		"bytes":    {canary + "\xff", "not text in UTF-8"},
		"nul":      {canary + "\x00", "NUL"},
		"reserved": {canary, "PORT"},
	} {
		key := "TOKEN"
		if name == "reserved" {
			key = "PORT"
		}
		got := a.admin().with(row.value).run(t, "secrets", "set", "test", key).check(t)
		if got.Code != agentctl.ExitInvalid || !strings.Contains(got.Stderr, row.want) {
			t.Errorf("%s: exit code %d, stderr %q; want %d and %q", name, got.Code, got.Stderr, agentctl.ExitInvalid,
				row.want)
		}
	}
}

func TestSecrets_WaitUntilTheAgentHasThem(t *testing.T) {
	t.Parallel()
	a := serve(t)
	a.RunningAgent(t, org, nil)
	a.work(t)
	a.admin().with(canary).run(t, "secrets", "set", "test", "TOKEN", "--wait").check(t).want(t, output{
		Stdout: "KEY  ACTION  STAGE  STATUS  REASON  BEGAN  OPERATION ID\n" +
			"TOKEN  set  complete  succeeded  -  AGE ago  ID\n",
	})
	a.admin().run(t, "secrets", "list", "test").want(t, output{
		Stdout: "KEY  IN SYNC  LATEST  LIVE  UPDATED\nTOKEN  yes  1  1  AGE ago\n",
	})
	a.admin().run(t, "secrets", "operations", "test", "-o", "jsonpath={[*].status}").want(t, output{
		Stdout: "succeeded\n",
	})
	a.admin().run(t, "secrets", "unset", "test", "TOKEN", "ABSENT", "--wait").want(t, output{
		Stdout: "KEY  ACTION  STAGE  STATUS  REASON  BEGAN  OPERATION ID\n" +
			"TOKEN  delete  complete  succeeded  -  AGE ago  ID\n",
	})
	a.admin().run(t, "secrets", "unset", "test", "TOKEN").want(t, output{Stderr: "Nothing had to change.\n"})
}

func TestSecrets_OfAStoppedAgentWaitForItsStart(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id := a.RunningAgent(t, org, nil).ID
	a.CallNamed(t, "StopAgent", functiontest.AsAdmin(org), functiontest.Path("agent_id", id)).Want(t, 200, "")
	a.work(t)
	got := a.admin().with(canary).run(t, "secrets", "set", id, "TOKEN", "--wait").ok(t).check(t)
	if want := "The agent is not running. It gets the change at its next start: TOKEN.\n"; got.Stderr != want {
		t.Errorf("stderr = %q, want %q", got.Stderr, want)
	}
}

func TestSecrets_FailedOperationsSayHowToRetry(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id := a.RunningAgent(t, org, nil).ID
	stop := a.onNudge(t, func(id string) {
		a.UpdateAgent(t, id, func(r *agent.Agent) {
			for i := range r.Operations {
				r.Operations[i].Status, r.Operations[i].ErrorCode = "failed", "pod_crash_loop"
			}
		})
	})
	a.admin().with(canary).run(t, "secrets", "set", id, "TOKEN", "--wait").check(t).want(t, output{
		Code: agentctl.ExitUnsettled,
		Stdout: "KEY  ACTION  STAGE  STATUS  REASON  BEGAN  OPERATION ID\n" +
			"TOKEN  set  bind  failed  pod_crash_loop  AGE ago  ID\n",
		Stderr: "Error: TOKEN failed at the stage bind: pod_crash_loop\n" +
			"See why the agent does not start: agentctl agents logs ID\n" +
			"Retry it: agentctl secrets reconcile ID ID --wait\n",
	})
	stop()
	operation := strings.TrimSpace(a.admin().run(t, "secrets", "operations", id, "-o", "name").ok(t).Stdout)
	a.work(t)
	a.admin().run(t, "secrets", "reconcile", id, operation, "--wait", "-o", "jsonpath={.status}").want(t,
		output{Stdout: "succeeded\n"})
	got := a.admin().run(t, "secrets", "reconcile", id, operation)
	if got.Code != agentctl.ExitConflict {
		t.Errorf("reconcile of an ended operation exits with %d, want %d: %s", got.Code, agentctl.ExitConflict,
			got.Stderr)
	}
}

func TestSecrets_ImportSendsBatches(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id := a.RunningAgent(t, org, nil).ID
	var file strings.Builder
	for i := range 45 {
		fmt.Fprintf(&file, "KEY_%02d=%s-%d\n", i, canary, i)
	}
	got := a.admin().with(file.String()).run(t, "secrets", "import", id, "-", "-o", "name").ok(t).check(t)
	if n := strings.Count(got.Stdout, "\n"); n != 45 {
		t.Errorf("%d operations, want 45", n)
	}
	want := "20 of 45 keys are accepted.\n40 of 45 keys are accepted.\n45 of 45 keys are accepted.\n"
	if !strings.HasPrefix(got.Stderr, want) {
		t.Errorf("stderr = %q, want %q", got.Stderr, want)
	}
	if value := a.stored(t, id, "KEY_44"); value != canary+"-44" {
		t.Errorf("KEY_44 = %q", value)
	}
}

func TestSecrets_ImportSendsLargeValuesSeparately(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id := a.RunningAgent(t, org, nil).ID
	var file strings.Builder
	for i := range 10 {
		fmt.Fprintf(&file, "KEY_%d=%s\n", i, strings.Repeat("x", 65536))
	}
	got := a.admin().with(file.String()).run(t, "secrets", "import", id, "-").ok(t)
	if want := "7 of 10 keys are accepted.\n10 of 10 keys are accepted.\n"; !strings.HasPrefix(got.Stderr, want) {
		t.Errorf("stderr = %q, want %q", got.Stderr, want)
	}
}

func TestSecrets_ImportChecksTheFileBeforehand(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id := a.RunningAgent(t, org, nil).ID
	file := "GOOD=" + canary + "\nEMPTY=\n1BAD=" + canary + "\n" + canary + "\nOPEN=\"" + canary + "\nLONG=" +
		strings.Repeat(canary, 6000) + "\n"
	a.admin().with(file).run(t, "secrets", "import", id, "-").check(t).want(t, output{
		Code: agentctl.ExitInvalid,
		Stderr: `Error: nothing was sent, because the file has problems:
  line 3: the key is not valid: use up to 128 letters, digits and underscores, and no digit at the start
  line 4: there is no "=". Write NAME=value
  line 5: the value begins with ", but no closing " follows
  line 2: EMPTY: the value is empty
  line 6: LONG: the value is longer than 65536 bytes
`,
	})
	a.admin().run(t, "secrets", "list", id, "-o", "name").want(t, output{})
	a.admin().with("A="+canary+"\nB=2").run(t, "secrets", "import", id, "-", "--dry-run", "-o", "json").check(t).ok(t)
}

// TestSecrets_ImportNamesTheRest refuses the second batch, because the platform reserves one of its keys.
func TestSecrets_ImportNamesTheRest(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id := a.RunningAgent(t, org, nil).ID
	var file strings.Builder
	for i := range 20 {
		fmt.Fprintf(&file, "KEY_%02d=%s\n", i, canary)
	}
	got := a.admin().with(file.String()+"PORT="+canary+"\n").run(t, "secrets", "import", id, "-").check(t)
	want := "The first 20 keys are set. Not set: PORT. Run the command again after the repair.\n"
	if got.Code != agentctl.ExitInvalid || !strings.Contains(got.Stderr, want) {
		t.Errorf("exit code %d, stderr %q; want %d and %q", got.Code, got.Stderr, agentctl.ExitInvalid, want)
	}
}

func TestSecrets_RefuseMembers(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id := a.RunningAgent(t, org, nil).ID
	c := a.as(functiontest.MemberToken(org)).with(canary)
	for _, args := range [][]string{
		{"secrets", "list", id},
		{"secrets", "set", id, "TOKEN"},
		{"secrets", "unset", id, "TOKEN"},
		{"secrets", "operations", id},
		{"credentials", "reveal", id},
		{"credentials", "rotate", id},
		{"audit", "list"},
		{"keys", "list"},
		{"billing", "portal"},
	} {
		if got := c.run(t, args...).check(t); got.Code != agentctl.ExitNotAllowed || got.Stdout != "" {
			t.Errorf("%v: exit code %d, stdout %q; want %d", args, got.Code, got.Stdout, agentctl.ExitNotAllowed)
		}
	}
}

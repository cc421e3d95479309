package agentctl_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/functions/agentctl"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/egress"
)

const egressRules = "jsonpath={.egress.mode} {.egress.allow} {.egress.deny}"

// TestEgress_IsRestrictedAndWidened goes through what a person does with the rules of an agent.
func TestEgress_IsRestrictedAndWidened(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := a.admin()
	c.run(t, "agents", "create", "my-agent", "-o", egressRules).want(t, output{0, "open [] []\n", ""})
	refused := c.run(t, "egress", "allow", "my-agent", "a.example")
	refused.wantCode(t, agentctl.ExitConflict, "agentctl egress set AGENT --mode allow_list")
	for _, step := range []struct{ command, want string }{
		{command: "set my-agent --mode allow_list --allow b.example,A.example", want: `allow_list ["a.example","b.example"] []`},
		{command: "allow my-agent *.c.example d.example", want: `allow_list ["*.c.example","a.example","b.example","d.example"] []`},
		{command: "deny my-agent x.c.example d.example", want: `allow_list ["*.c.example","a.example","b.example","d.example"] ["d.example","x.c.example"]`},
		{command: "allow my-agent d.example", want: `allow_list ["*.c.example","a.example","b.example","d.example"] ["x.c.example"]`},
		{command: "remove my-agent D.example x.c.example b.example", want: `allow_list ["*.c.example","a.example"] []`},
		{command: "set my-agent --allow z.example --dry-run", want: `allow_list ["*.c.example","a.example"] []`},
		{command: "set my-agent --deny q.example", want: `allow_list ["*.c.example","a.example"] ["q.example"]`},
		{command: "set my-agent --allow= --deny=", want: `allow_list [] []`},
		{command: "update my-agent --egress-mode open", want: `open [] []`},
	} {
		command := append([]string{"egress"}, strings.Fields(step.command)...)
		if strings.HasPrefix(step.command, "update") {
			command[0] = "agents"
		}
		c.run(t, command...).ok(t)
		got := c.run(t, "agents", "get", "my-agent", "-o", egressRules).ok(t)
		if strings.TrimSpace(got.Stdout) != step.want {
			t.Errorf("after %s the rules are %s, want %s", step.command, got.Stdout, step.want)
		}
	}
}

// TestEgress_IsShown reads the rules of an agent in each view.
func TestEgress_IsShown(t *testing.T) {
	t.Parallel()
	c := serve(t).admin()
	c.run(t, "agents", "create", "my-agent", "--egress-mode", "allow_list", "--egress-allow", "a.example,*.b.example",
		"--egress-deny", "x.b.example").ok(t)
	c.run(t, "egress", "show", "my-agent").want(t, output{Stdout: "Agent:  my-agent\n" +
		"Egress:  allow_list: the allowed hosts only\nAllowed:  *.b.example, a.example\nDenied:  x.b.example\n"})
	if got := c.run(t, "agents", "get", "my-agent").ok(t); !strings.Contains(got.Stdout, "*.b.example, a.example\n") {
		t.Errorf("the agent has no rules:\n%s", got.Stdout)
	}
	c.run(t, "org", "update", "--egress-mode", "allow_list", "--egress-allow", "c.example").
		want(t, output{Stdout: "ID:  org-1\nExec:  admins may enter them\n" +
			"Egress:  new agents: allow_list: c.example\n"})
	c.run(t, "agents", "create", "other", "-o", egressRules).want(t, output{Stdout: "allow_list [\"c.example\"] []\n"})
	c.run(t, "org", "update", "--exec", "off", "--if-match", `"another"`).
		wantCode(t, agentctl.ExitConflict, "settings have changed")
	c.run(t, "org", "update").wantCode(t, agentctl.ExitUsage, "there is nothing to change")
}

// TestEgress_LogNamesWhatIsMissing records what the gate reports, and reads it in each way.
func TestEgress_LogNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := a.admin()
	c.run(t, "agents", "create", "my-agent", "--egress-mode", "allow_list", "--egress-allow", "*.a.example").ok(t)
	id := strings.TrimSpace(c.run(t, "agents", "get", "my-agent", "-o", "name").ok(t).Stdout)
	c.run(t, "egress", "log", "my-agent").
		want(t, output{Stderr: "my-agent reached no host in the last 7 days, and was refused none.\n"})
	at := time.Now().UTC()
	refusal := func(host string, reason egress.Reason) egress.Count {
		return egress.Count{Host: host, Refused: 2, Reason: reason, FirstAt: at, LastAt: at, RefusedAt: at}
	}
	if err := a.EgressLog.Record(t.Context(), "gate-1", egress.Report{
		AgentID: id, Day: at.Format(egress.DayFormat), Hosts: []egress.Count{
			{Host: "x.a.example", Used: 7, FirstAt: at, LastAt: at},
			refusal("(no name)", egress.NoName),
			refusal("b.example", egress.NotListed), refusal("c.example", egress.NotListed),
		},
	}); err != nil {
		t.Fatal(err)
	}
	log := c.run(t, "egress", "log", "my-agent")
	log.wantCode(t, agentctl.ExitOK, "To allow a host: agentctl egress allow "+id+" b.example")
	for _, row := range []string{
		`\(no name\) +no +0 +2 +no_name`, `b.example +no +0 +2 +not_listed`, `x.a.example +yes +7 +0 +- +- +`,
	} {
		if !regexp.MustCompile(row).MatchString(log.Stdout) {
			t.Errorf("the log lacks %s:\n%s", row, log.Stdout)
		}
	}
	show := func(c tool) string { return c.run(t, "egress", "show", "my-agent").ok(t).Stdout }
	if got := show(c); !strings.Contains(got, "Refused:  b.example, c.example\n") {
		t.Errorf("the rules come without what is missing:\n%s", got)
	}
	if got := show(a.as(functiontest.MemberToken(org))); strings.Contains(got, "b.example") {
		t.Errorf("a member sees the log:\n%s", got)
	}
	narrower := c.run(t, "egress", "set", "my-agent", "--allow", "b.example", "--dry-run").ok(t)
	if !strings.Contains(narrower.Stdout, "Loses hosts:  x.a.example (7 in 7 days)\n") {
		t.Errorf("the rehearsal does not say what the agent loses:\n%s", narrower.Stdout)
	}
	c.run(t, "egress", "allow", "my-agent", "b.example").ok(t)
	c.run(t, "egress", "log", "my-agent", "--refused", "-o", "jsonpath={.items[*].allowed}").
		want(t, output{Stdout: "false true false\n"})
}

func TestEgress_RefusesWhatIsNoHost(t *testing.T) {
	t.Parallel()
	c := serve(t).admin()
	c.run(t, "agents", "create", "my-agent", "--egress-mode", "allow_list").ok(t)
	for command, want := range map[string]string{
		"allow my-agent https://a.example":            `"https://a.example": must consist of letters`,
		"allow my-agent a.example 10.0.0.1":           `"10.0.0.1": must be a name, not an address`,
		"deny my-agent a.*.example":                   `"a.*.example": a wildcard is`,
		"set my-agent --allow localhost":              `"localhost": must be a full name`,
		"set my-agent --mode closed":                  "'open' or 'allow_list'",
		"set my-agent":                                "there is nothing to change",
		"remove my-agent a.example":                   "neither list of the agent has a.example",
		"allow my-agent":                              "HOST",
		"set my-agent --allow a.example --if-match x": "has changed since",
	} {
		got := c.run(t, append([]string{"egress"}, strings.Fields(command)...)...)
		if got.Code == agentctl.ExitOK || !strings.Contains(got.Stderr, want) {
			t.Errorf("egress %s: exit code %d, %s; want %q", command, got.Code, got.Stderr, want)
		}
	}
	c.run(t, "egress", "show", "my-agent", "-o", "jsonpath={.allow}").want(t, output{Stdout: "[]\n"})
}

// TestSecrets_AreInjected sets a secret that stays outside the agent. A new value keeps its hosts.
func TestSecrets_AreInjected(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := a.admin()
	c.variables = map[string]string{"VALUE": canary}
	id := a.RunningAgent(t, org, nil).ID
	set := func(flags ...string) output {
		return c.run(t, append([]string{"secrets", "set", "test", "KEY", "--from-env", "VALUE"}, flags...)...).check(t)
	}
	set("--inject-host", "a.example").wantCode(t, agentctl.ExitConflict, "agentctl egress set AGENT")
	c.run(t, "egress", "set", "test", "--mode", "allow_list", "--allow", "a.example,*.b.example,b.example").ok(t)
	set("--inject-header", "x-api-key").wantCode(t, agentctl.ExitUsage, "--inject-host")
	set("--inject-host", "other.test").wantCode(t, agentctl.ExitInvalid, "--inject-host: ", "may not reach other.test")
	set("--inject-host", "a.example", "--inject-format", "Bearer").wantCode(t, agentctl.ExitInvalid, "--inject-format")
	set("--inject-host", "B.example", "--inject-host", "a.example", "--inject-header", "x-api-key", "--inject-format",
		"{value}").ok(t)
	const where = "jsonpath={[0].inject.hosts} {[0].inject.header} {[0].inject.format} {[0].latest_version}"
	settle := func() string {
		a.Reconcile(t, id)
		return c.run(t, "secrets", "list", "test", "-o", where).ok(t).Stdout
	}
	if got := settle(); got != "[\"a.example\",\"b.example\"] x-api-key {value} 1\n" {
		t.Errorf("the secret is injected into %s", got)
	}
	set().ok(t)
	if got := settle(); got != "[\"a.example\",\"b.example\"] x-api-key {value} 2\n" {
		t.Errorf("with another value, the secret is injected into %s", got)
	}
	listed := c.run(t, "secrets", "list", "test").ok(t)
	if !strings.Contains(listed.Stdout, "a.example, b.example (x-api-key: {value})") {
		t.Errorf("the list does not say where the secret is injected:\n%s", listed.Stdout)
	}
	if s := a.Agent(t, id).Injected; len(s) != 1 {
		t.Errorf("the agent has the brokered secrets %+v, want one", s)
	}
	c.run(t, "egress", "set", "test", "--mode", "open").wantCode(t, agentctl.ExitConflict, "brokered")
	if a.Agent(t, id).Status != agent.Running {
		t.Error("the agent does not run any more")
	}
}

// TestApply_RestrictsEgressBeforeItInjectsSecrets turns an agent that exists to a list, with a secret for a host on it.
func TestApply_RestrictsEgressBeforeItInjectsSecrets(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := a.applying()
	const plain = "manifest: production\nagents:\n  one:\n    resource_plan: hobby\n"
	const restricted = plain + "    egress: {mode: allow_list, allow: [b.example, a.example]}\n" +
		"    secrets: {K: {env: KEY, inject: {hosts: [A.example]}}}\n"
	c.apply(t, plain).ok(t)
	got := c.apply(t, restricted, "--dry-run")
	got.wantCode(t, agentctl.ExitDiffers)
	wantParts(t, "the rehearsal", got.Stdout,
		`egress: {"allow":[],"deny":[],"mode":"open"} -> {"allow":["a.example","b.example"],"deny":[],"mode":"allow_list"}`,
		"secrets.K: (from the variable KEY), injected into A.example (Authorization: Bearer {value})")
	c.apply(t, restricted).ok(t)
	id := strings.TrimSpace(c.run(t, "agents", "get", "one", "-o", "name").ok(t).Stdout)
	a.Reconcile(t, id)
	c.apply(t, restricted, "--dry-run").wantCode(t, agentctl.ExitOK)
	elsewhere := strings.ReplaceAll(restricted, "A.example", "b.example")
	c.apply(t, elsewhere, "--dry-run").wantCode(t, agentctl.ExitDiffers)
	c.apply(t, elsewhere).ok(t)
	a.Reconcile(t, id)
	exported := c.run(t, "export", "one", "--manifest", "production", "-o", "jsonpath={.agents.one.secrets.K} "+
		"{.agents.one.egress.allow}").ok(t)
	const want = `{"env":"K","inject":{"format":"Bearer {value}","header":"Authorization","hosts":["b.example"]}} ` +
		`["a.example","b.example"]`
	if strings.TrimSpace(exported.Stdout) != want {
		t.Errorf("exported %s, want %s", exported.Stdout, want)
	}
	c.apply(t, strings.ReplaceAll(restricted, "hosts: [A.example]", "hosts: [c.example]"), "--dry-run").
		wantCode(t, agentctl.ExitInvalid, "secrets.K.inject.hosts")
}

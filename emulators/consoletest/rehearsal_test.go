//go:build unix

package consoletest_test

import (
	"net/http"
	"testing"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/plan"
)

// rememberRehearsals keeps the bodies of rehearsals.
const rememberRehearsals = `(() => {
	window.rehearsed = [];
	const send = window.fetch.bind(window);
	window.fetch = (url, init) => {
		if (String(url).includes("dry_run=true")) window.rehearsed.push(init.body ?? "");
		return send(url, init);
	};
	return true;
})()`

// TestRehearsal_SaysWhatAChangeWouldDo opens the dialogs that change a running agent, and makes no change.
func TestRehearsal_SaysWhatAChangeWouldDo(t *testing.T) {
	t.Parallel()
	admin, agent, p := openAgent(t, "careful", "")
	p.WaitFor("heading", "The agent is running")
	consoletest.Eval[bool](p, rememberRehearsals)
	expect := func(dialog string, texts ...string) {
		t.Helper()
		forecast := p.Within("dialog", dialog).Within("region", "What the service expects")
		for _, text := range texts {
			forecast.WaitText(text)
		}
		p.Review("rehearsal-" + dialog)
		p.Press("Escape")
		p.WaitGone("dialog", dialog)
	}
	p.Click("button", "Restart")
	expect("Restart “careful”?", "About ", "The same as now")
	p.Click("button", "More actions")
	p.Click("button", "Stop")
	expect("Stop “careful”?", "do not answer while it is stopped",
		"cores 0.5 → 0, memory 1 GiB → 0 B")
	p.Click("button", "More actions")
	p.Click("button", "Delete")
	expect("Delete “careful”?", "For good", "agents 1 → 0")

	p.Click("link", "Variables")
	p.Click("button", "Set variables")
	form := p.Within("dialog", "Set variables")
	form.Fill("Name of variable 1", "MODE")
	form.Fill("Value of MODE", "hunter2")
	form.Within("region", "What the service expects").WaitText("Yes, the pod is replaced.")
	if got := consoletest.Eval[bool](p, `rehearsed.some(body => body.includes("hunter2"))`); got {
		t.Error("a rehearsal has the value that was typed")
	}
	config, _ := admin.AwaitAgent(agent, "running")["env_vars"].(map[string]any)
	if config["MODE"] != nil {
		t.Errorf("the agent's variables are %v, want no change before it is saved", config)
	}
}

// TestResize_ShowsWhatASizeTakesUpAndChangesIt chooses larger sizes of a running agent, and confirms one of them. The
// answer is lost, and another attempt has the same size.
func TestResize_ShowsWhatASizeTakesUpAndChangesIt(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Startup)
	agent := admin.RunningAgent("grows")
	p := admin.Open(t, "/console#/agents/"+agent+"/settings")
	p.Within("region", "Size").Click("button", "Change the size")
	dialog := p.Within("dialog", "Change the size?")
	dialog.Select("New size", "Startup: 2 cores, 4 GiB memory, 20 GiB storage")
	forecast := dialog.Within("region", "What the service expects")
	for _, text := range []string{
		"Yes, the pod is replaced.", "cores 0.5 → 2", "storage 5 GiB → 20 GiB", "The same as now, $109 a month",
	} {
		forecast.WaitText(text)
	}
	p.Review("resize")
	const starter = "Starter: 1 core, 2 GiB memory, 10 GiB storage"
	dialog.Select("New size", starter)
	consoletest.Eval[int](p, loseAnswers)
	dialog.Click("button", "Change the size")
	dialog.WaitText(isUnknown)
	p.WaitTrue(`document.querySelector("section[aria-label=Size]").innerText.includes("a volume of 10 GiB")`)
	consoletest.Eval[int](p, restoreAnswers)
	dialog.Click("button", "Try again")
	p.WaitGone("dialog", "Change the size?")
	if got := admin.AwaitAgent(agent, "running")["resource_plan"]; got != "starter" {
		t.Errorf("the agent's plan is %v, want starter", got)
	}
}

// TestRehearsal_SaysThatAChangeIsRefused opens a dialog whose action the service refuses.
func TestRehearsal_SaysThatAChangeIsRefused(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	agent := admin.RunningAgent("refused")
	admin.Call(http.MethodPost, "/api/v1/agents/"+agent+"/stop", "", http.StatusOK)
	p := admin.Open(t, "/console#/agents/"+agent)
	p.WaitFor("heading", "The agent is stopped")
	p.Respond("POST", "/start?dry_run=true",
		refusal(http.StatusPaymentRequired, "plan_capacity_exceeded", "The plan has no room for 2 more cores."))
	p.Click("button", "Start the agent")
	dialog := p.Within("dialog", "Start “refused”?")
	dialog.WaitText("The service would refuse this now")
	dialog.WaitText("The plan has no room for 2 more cores.")
	dialog.WaitFor("link", "See plan and payment.")
	p.Review("rehearsal-refused")
}

// TestRehearsalText_SaysWhatChanges renders what rehearsals of several changes answer.
func TestRehearsalText_SaysWhatChanges(t *testing.T) {
	t.Parallel()
	p := module(t, "agent/rehearsal-text.ts")
	const helpers = `const before = {agents: 2, cpu_cores: 1.5, memory_bytes: 3 * 2 ** 30, storage_bytes: 2 ** 30};
		const usage = change => module.usageText({usage_before: before, usage_after: {...before, ...change}});
		const downtime = (seconds, status) => module.downtimeText({downtime_seconds_estimate: seconds, status});
		const price = change => module.priceText({monthly_price_before_usd: 49, monthly_price_change_usd: change});`
	for expression, want := range map[string]string{
		"usage({})":                        "The same as now",
		"usage({agents: 1, cpu_cores: 1})": "agents 2 → 1, cores 1.5 → 1",
		"usage({memory_bytes: 2 ** 30})":   "memory 3 GiB → 1 GiB",
		"downtime(0, 'running')":           "None",
		"downtime(90, 'running')":          "About 1 min 30 s, as at the last start",
		"downtime(null, 'paused')":         "Until the agent runs again",
		"downtime(null, 'provisioning')":   "Not known yet",
		"price(-60)":                       "$60 a month less",
		"price(0)":                         "The same as now, $49 a month",
		"price(null)":                      "By contract",
	} {
		if got := consoletest.Eval[string](p, "(() => {"+helpers+" return "+expression+"; })()"); got != want {
			t.Errorf("%s = %q, want %q", expression, got, want)
		}
	}
}

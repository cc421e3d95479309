//go:build unix

package consoletest_test

import (
	"net/http"
	"testing"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/emulators/issuer"
	"agents.example/controlplane/shared/plan"
)

// TestPages_OfAnAgentLookRightInEachStatus reviews the pages of an agent from its creation to its end. Other stories
// review its logs, metrics, variables, and its page in error.
func TestPages_OfAnAgentLookRightInEachStatus(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	agent := admin.UnreadyAgent("support bot", map[string]string{"LOG_LEVEL": "debug", "API_TOKEN": "a-secret"})
	p := admin.Open(t, "/console#/agents/"+agent)
	p.WaitText("It is at the stage “Ready”.") // the heading changes after a minute
	p.Review("agent-provisioning")
	checkMotion(t, p)
	suite.Break(t, agent, "")
	p.WaitFor("heading", "The agent is running")
	p.WaitText("Its address answers")
	p.Review("agent-running")

	p.Click("link", "Credentials")
	reveal(p)
	p.Review("credentials-revealed")
	p.Click("link", "History")
	p.WaitText("Secret API_TOKEN set")
	p.Review("agent-history")
	reviewDialogs(p, "support bot")

	admin.Call(http.MethodPost, "/api/v1/agents/"+agent+"/stop", "", http.StatusOK)
	p.Click("link", "Overview")
	p.WaitFor("heading", "The agent is stopped")
	p.Review("agent-stopped")
	admin.Call(http.MethodDelete, "/api/v1/agents/"+agent, "", http.StatusAccepted)
	p.WaitFor("heading", "“support bot” is deleted")
	p.Review("agent-deleted")
}

// checkMotion checks that a page that moves does not move for a user who prefers reduced motion: what moves ends within
// a millisecond, and colors change at the same moment everywhere. A transition of an inherited color, however short,
// would go from element to element.
func checkMotion(t *testing.T, p *consoletest.Page) {
	t.Helper()
	const moves = `document.getAnimations().some(a => a.effect.getComputedTiming().endTime > 1)`
	p.ReducedMotion(false)
	p.WaitTrue(moves)
	p.ReducedMotion(true)
	p.WaitTrue("!" + moves)
	const recolored = `(page => {
		const transitions = () => document.getAnimations().filter(a => a instanceof CSSTransition).length;
		const theme = page.dataset.theme, before = transitions();
		page.dataset.theme = "dark";
		const after = transitions();
		theme ? page.dataset.theme = theme : delete page.dataset.theme;
		return before + after;
	})(document.documentElement)`
	if n := consoletest.Eval[int](p, recolored); n > 0 {
		t.Errorf("%d colors change slowly although the user prefers reduced motion", n)
	}
}

// reviewDialogs reviews the settings of a running agent, and the dialogs of what an admin can do with it.
func reviewDialogs(p *consoletest.Page, name string) {
	p.Click("link", "Settings")
	p.WaitText("The sandbox puts a second kernel")
	p.Review("agent-settings")
	p.Click("button", "Turn the sandbox on")
	p.WaitFor("dialog", "Turn the sandbox on?")
	p.Review("agent-sandbox")
	p.Press("Escape")
	p.Click("button", "Delete the agent")
	dialog := p.Within("dialog", "Delete “"+name+"”?")
	dialog.Click("button", "Delete the agent")
	dialog.WaitText("This is not the name of the agent.")
	p.Review("agent-delete")
	p.Press("Escape")
	p.WaitGone("dialog", "*")
	p.Click("button", "More actions")
	p.WaitFor("button", "Stop")
	p.Screenshot("agent-actions")
	p.Click("button", "Stop")
	p.WaitFor("dialog", "Stop “"+name+"”?")
	p.Review("agent-stop")
	p.Press("Escape")
	p.WaitGone("dialog", "*")
}

// TestPages_ThatDoNotExistSaySo opens mistyped addresses.
func TestPages_ThatDoNotExistSaySo(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	agent := admin.RunningAgent("known")
	p := admin.Page(t)
	for _, c := range []struct{ place, name, heading string }{
		{place: "nowhere", name: "not-found", heading: "This page does not exist"},
		{place: "agents/" + agent + "/nothing", name: "agent-no-tab", heading: "The agent’s page has no such part"},
		{
			place: "agents/6f1c2f0e-33b5-4c5a-9d0a-7a1f4e2b9c11", name: "agent-not-found",
			heading: "There is no such agent",
		},
	} {
		p.Open("/console#/" + c.place)
		p.WaitFor("heading", c.heading)
		p.Review(c.name)
	}
	p.Click("link", "Go to the agents")
	p.WaitFor("link", "known")
}

// TestPages_WithoutAnOrganizationSayWhatToDo opens the console in a session that has no organization.
func TestPages_WithoutAnOrganizationSayWhatToDo(t *testing.T) {
	t.Parallel()
	outsider := *suite.Admin(t, plan.Starter)
	token, err := suite.Cloud(t).Issuer.Session(issuer.Session{Subject: "user_outside_of_" + outsider.Organization})
	if err != nil {
		t.Fatal(err)
	}
	outsider.Token = token
	p := outsider.Open(t, "/console#/agents")
	p.WaitFor("heading", "No organization is active")
	p.WaitText("user_outside_of_" + outsider.Organization)
	p.Review("no-organization")
}

// rememberSaved keeps the text of the files that the page saves.
const rememberSaved = `(() => {
	const create = URL.createObjectURL.bind(URL);
	URL.createObjectURL = blob => { blob.text().then(text => { window.saved = text; }); return create(blob); };
	return true;
})()`

// TestActivity_ShowsEventsUntilTheReceipt opens the history of an agent, stops and deletes the agent, and saves the
// receipt of the deletion. A member sees the events, and no receipt.
func TestActivity_ShowsEventsUntilTheReceipt(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	agent := admin.RunningAgent("watched")
	path := "/api/v1/agents/" + agent
	p, member := admin.Page(t), admin.Colleague("member").Page(t)
	p.Open("/console#/agents/" + agent + "/history")
	member.Open("/console#/agents/" + agent + "/history")
	history := p.Within("region", "What happened")
	history.WaitText("Agent runs")
	history.WaitNoText("Stage “Namespace”")
	history.WaitNoText("Changed: hostname")
	history.Click("checkbox", "Show what the control plane did *")
	history.WaitText("Stage “Namespace”")
	admin.Call(http.MethodPost, path+"/stop", "", http.StatusOK)
	history.WaitText("Agent stopped")
	p.Review("agent-activity")
	member.Within("region", "What happened").WaitText("Agent stopped")

	admin.Call(http.MethodDelete, path, "", http.StatusAccepted)
	p.WaitFor("heading", "“watched” is deleted")
	receipt := p.Within("region", "Receipt of the deletion")
	for _, part := range []string{"Namespace", "Volume", "Secrets", "Address", "Record"} {
		receipt.Containing("row", part).WaitNoText("Not yet")
	}
	consoletest.Eval[bool](p, rememberSaved)
	receipt.Click("button", "Download as JSON")
	p.WaitTrue(`JSON.parse(window.saved ?? "{}").agent_id === "` + agent + `"`)
	if got := consoletest.Eval[bool](p, `JSON.parse(window.saved).receipt.split(".").length === 3`); !got {
		t.Error("the saved receipt is not signed")
	}
	p.Review("agent-receipt")
	p.Reload() // the receipt is kept longer than the page remembers the agent
	p.WaitFor("heading", "“watched” is deleted")
	member.WaitFor("heading", "“watched” is deleted")
	member.WaitNoText("Receipt of the deletion")
}

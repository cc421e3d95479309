//go:build unix

package consoletest_test

import (
	"net/http"
	"testing"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/plan"
)

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

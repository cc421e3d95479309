//go:build unix

package consoletest_test

import (
	"net/http"
	"strings"
	"testing"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/plan"
)

// TestCloud_ServesThePlayground opens a page of the service in the browser.
func TestCloud_ServesThePlayground(t *testing.T) {
	t.Parallel()
	p := suite.Guest(t)
	p.Open("/docs")
	p.WaitText("Authorize")
	p.WaitText("Agents and their lifecycle.")
	p.WaitNoText("Safe to repeat.")                           // the guide is closed
	p.WaitTrue(`document.querySelectorAll("*").length < 600`) // tags are closed
	p.Screenshot("playground")
	p.Click("DisclosureTriangle", "Guide: *")
	p.WaitText("Safe to repeat.")
	p.Open("/docs#/Agents/GetAgent")
	p.Reload() // the page reads the fragment when it starts
	p.WaitText(`curl "$AGENTS_BASE_URL/api/v1/agents/$AGENT_ID"`)
	p.Click("tab", "Go")
	p.WaitText("c.GetAgent(ctx, agentID, client.GetAgentParams{})")
	p.Click("tab", "Python")
	p.WaitText("agent = api.get_agent(agent_id)")
	p.Screenshot("playground-samples")
	t.Logf("\n%s", consoletest.TransferTable(p.Transfers()))
}

// TestCloud_GivesEachTestAnOrganization checks the users and the agents that stories begin with.
func TestCloud_GivesEachTestAnOrganization(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Startup)
	running := admin.RunningAgent("runs")
	failing := admin.FailingAgent("fails", cluster.CrashLoop)
	config, _ := admin.AwaitAgent(failing, "error")["config"].(map[string]any)
	failure, _ := config["error"].(map[string]any)
	if failure["code"] != "pod_crash_loop" {
		t.Errorf("config.error = %v, want pod_crash_loop", failure)
	}
	suite.Break(t, failing, "")
	admin.AwaitAgent(failing, "running")
	member := admin.Colleague("member")
	if got := member.Call(http.MethodGet, "/api/v1/me", "", http.StatusOK)["role"]; got != "member" {
		t.Errorf("role of the colleague = %v, want member", got)
	}
	member.Call(http.MethodPost, "/api/v1/agents/"+running+"/stop", "", http.StatusForbidden)
	admin.Expired().Call(http.MethodGet, "/api/v1/me", "", http.StatusUnauthorized)
	suite.Admin(t, plan.Hobby).Call(http.MethodGet, "/api/v1/agents/"+running, "", http.StatusNotFound)
}

// TestCloud_SignsPagesIn checks that a user's page has the session when a script of the service first runs.
func TestCloud_SignsPagesIn(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Hobby)
	p := admin.Open(t, "/docs")
	const session = `sessionStorage.getItem("console.session") ?? "none"`
	if got := consoletest.Eval[string](p, session); !strings.Contains(got, admin.Token) {
		t.Error("the page has no session")
	}
	consoletest.Eval[any](p, `(sessionStorage.removeItem("console.session"), 0)`)
	p.Reload()
	if got := consoletest.Eval[string](p, session); got != "none" {
		t.Error("the page is signed in again after it signed out")
	}
}

//go:build unix

package consoletest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/diagnosis"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// rememberAnnouncements keeps what the page says to assistive technology, because each sentence replaces the last one.
const rememberAnnouncements = `(() => {
	window.said = [];
	const place = document.querySelector('[role="status"][aria-live="polite"]');
	new MutationObserver(() => window.said.push(place.innerText))
		.observe(place, {childList: true, characterData: true, subtree: true});
	return true;
})()`

// said waits until the page has said a sentence that begins with a text.
func said(p *consoletest.Page, text string) {
	p.WaitTrue(fmt.Sprintf("window.said.some(sentence => sentence.startsWith(%q))", text))
}

// TestFailingAgent_IsExplainedUntilItRuns sees an agent fail in the list, learns why, starts it again and sees it
// run.
func TestFailingAgent_IsExplainedUntilItRuns(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	agent := admin.RunningAgent("crawler")
	p := admin.Open(t, "/console#/agents")
	p.WaitFor("link", "Running 1")
	suite.Break(t, agent, cluster.CrashLoop)
	p.WaitText("The agent exits soon after it starts · ")
	p.WaitNoText("Search name or ID") // there is one agent
	p.Click("link", "crawler")
	p.WaitFor("heading", "The agent exits soon after it starts")
	p.WaitText("Exit code 1.")
	p.WaitText("pod_crash_loop")
	now := p.Within("region", "What the agent is doing now")
	now.Within("group", "The last lines of the log").WaitText("serving")
	now.WaitNoText("Read the last lines that it wrote before it exited.") // the card has them
	now.WaitNoText("restarts:")                                           // the health figures count them
	now.Click("DisclosureTriangle", "What happened before")
	now.WaitText("The agent started and runs.")
	checkActions(t, p, admin.AwaitAgent(agent, "error"))
	p.Review("agent-error")
	p.SetViewport(390, 844)
	p.WaitTrue(`document.querySelector(".now").getBoundingClientRect().top <= 0.3 * innerHeight`) // the header is short
	p.SetViewport(1280, 800)
	member := admin.Colleague("member").Open(t, "/console#/agents/"+agent)
	member.WaitText("Read the last lines that it wrote before it exited.")
	member.WaitNoText("What it wrote last")
	member.Click("link", "Read the previous run’s log")
	member.WaitText("Only admins can read logs")

	p.Click("link", "Read the previous run’s log")
	p.WaitText("serving")
	if !slices.ContainsFunc(p.Transfers(), func(one consoletest.Transfer) bool {
		return strings.Contains(one.URL, "previous=true")
	}) {
		t.Error("the page did not ask for the previous log")
	}
	p.Review("agent-logs-previous")
	p.Back()
	p.WaitFor("link", "Check the variables")

	consoletest.Eval[bool](p, rememberAnnouncements)
	p.Click("button", "Start the agent")
	dialog := p.Within("dialog", "Start “crawler”?")
	dialog.WaitText("It does not run now.")
	p.Review("agent-start")
	dialog.Click("button", "Start the agent")
	p.WaitGone("dialog", "Start “crawler”?")
	suite.Break(t, agent, "")
	p.WaitFor("heading", "The agent is running")
	said(p, "crawler: running")
	p.WaitNoText("pod_crash_loop")
	checkActions(t, p, admin.AwaitAgent(agent, "running"))
}

// checkActions checks that the page offers the actions that an agent allows, and no other.
func checkActions(t *testing.T, p *consoletest.Page, agent consoletest.Object) {
	t.Helper()
	config, _ := agent["config"].(map[string]any)
	allowed, _ := config["allowed_actions"].([]any)
	p.Click("button", "More actions")
	p.WaitFor("button", "Delete")
	for _, action := range []string{"Restart", "Pause", "Resume", "Start", "Stop", "Delete"} {
		want := slices.Contains(allowed, any(strings.ToLower(action)))
		if action == "Restart" && agent["status"] == "error" {
			want = false // it is the same as to start
		}
		if got := len(p.All("button", action)) == 1; got != want {
			t.Errorf("the page of an agent that is %v offers %s: %t, want %t", agent["status"], action, got, want)
		}
	}
	p.Press("Escape")
	p.WaitGone("button", "Delete")
}

// outage is the answer of a service that has no database.
const outage = `{"code": "store_unavailable", "detail": "The database is unavailable. Retry.", "status": 503,
	"request_id": "req-outage"}`

// TestOutage_KeepsWhatWasShown looks at an agent while the service fails and while it cannot be reached.
func TestOutage_KeepsWhatWasShown(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	agent := admin.RunningAgent("watched")
	path := "/api/v1/agents/" + agent
	p := admin.Open(t, "/console#/agents/"+agent)
	p.WaitFor("heading", "The agent is running")
	p.Respond("GET", path, consoletest.Response{Status: http.StatusServiceUnavailable, Body: outage})
	notice := p.Containing("status", "What you see is from")
	notice.WaitText("The database is unavailable.")
	notice.WaitText("req-outage")
	notice.WaitText("The console tries again by itself.")
	p.WaitFor("heading", "watched")
	p.Review("agent-outage")

	p.Respond("GET", path, consoletest.Response{Status: http.StatusNotFound, Body: "<h1>Not found</h1>"})
	notice.Click("button", "Try now")
	notice.WaitText("The service answered with status 404.") // a proxy did, and the agent is not deleted
	p.WaitFor("heading", "The agent is running")

	p.Respond("GET", path, consoletest.Response{Lost: true})
	notice.Click("button", "Try now")
	notice.WaitText("The service could not be reached. Check your connection and try again.")
	p.WaitFor("heading", "watched")
	p.Respond("GET", path, consoletest.Response{}) // the service answers again
	p.WaitNoText("What you see is from")
	p.WaitFor("heading", "The agent is running")
}

// quickTimers makes timers of the page quick, and remembers how long they were to take.
const quickTimers = `{
	window.pauses = [];
	const setTimer = window.setTimeout;
	window.setTimeout = (run, pause, ...values) => {
		window.pauses.push(pause ?? 0);
		return setTimer(run, Math.min(pause ?? 0, 1_000), ...values);
	};
}`

// TestOutage_EndsByItself opens an agent while the service fails, behind a proxy that asks for a pause of 50 days.
// Nothing is clicked until the page shows the agent.
func TestOutage_EndsByItself(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	agent := admin.RunningAgent("delayed")
	p := admin.Page(t)
	ended := make(chan struct{})
	p.Respond("GET", "/api/v1/agents/"+agent, consoletest.Response{Hold: ended})
	p.Respond("GET", "/api/v1/agents/"+agent, consoletest.Response{
		Status: http.StatusServiceUnavailable, Body: outage, Times: 2,
		Header: map[string]string{"Retry-After": "4320000"},
	})
	p.RunFirst(quickTimers)
	p.Open("/console#/agents/" + agent)
	failure := p.Containing("alert", "The database is unavailable.")
	failure.WaitText("req-outage")
	failure.WaitFor("button", "Try again")
	failure.WaitText("The console tries again by itself.")
	p.Review("agent-outage-first")
	close(ended)
	p.WaitFor("heading", "delayed")
	p.WaitNoText("The database is unavailable.")
	if longest := consoletest.Eval[float64](p, "Math.max(...pauses)"); longest > 60_000 {
		t.Errorf("the page paused for %v ms, want a minute at most", longest)
	}
}

// TestRename_EndsAfterALostAnswer renames an agent. The service makes the change, but its answer is lost.
func TestRename_EndsAfterALostAnswer(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	agent := admin.RunningAgent("former")
	path := "/api/v1/agents/" + agent
	p := admin.Open(t, "/console#/agents/"+agent)
	p.WaitFor("heading", "former")
	p.Respond("PATCH", path, consoletest.Response{Lost: true, Times: 1})
	p.Click("button", "Rename the agent")
	p.Fill("Name", " latter ")
	p.Press("Enter")
	p.WaitText("It is not known whether the agent was renamed.")
	admin.Call(http.MethodPatch, path, `{"name": "latter"}`, http.StatusOK)
	p.Click("button", "Try again")
	p.WaitText("The agent is called “latter” now.")
	p.WaitFor("heading", "latter")
	if len(p.All("button", "Save"))+len(p.All("button", "Replace it")) > 0 {
		t.Error("the form is still open after the name was changed")
	}
}

// TestPausedByTheService_SaysWhy shows an agent that the service has paused, for each reason that it may have.
func TestPausedByTheService_SaysWhy(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	id := admin.RunningAgent("withheld")
	paused := admin.AwaitAgent(id, "running")
	config, _ := paused["config"].(map[string]any)
	paused["status"], config["status_reason"] = "paused", "billing"
	config["allowed_actions"] = []string{"stop", "delete"}
	respond := func(p *consoletest.Page, path string, body any) {
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		p.Respond("GET", path, consoletest.Response{Status: http.StatusOK, Body: string(text)})
	}
	p := admin.Page(t)
	respond(p, "/api/v1/agents/"+id, paused)
	p.Open("/console#/agents/" + id)
	record := agent.Agent{ID: id, Status: agent.Paused, StatusReason: agent.Billing}
	for _, c := range []struct {
		status        organization.Status
		title, advice string
	}{
		{status: "past_due", title: "The agent is paused because a payment is overdue", advice: "Pay the open amount."},
		{
			status: "suspended", title: "The agent is paused because the organization is suspended",
			advice: "Contact support.",
		},
		{
			status: "active", title: "The agent is paused because it does not fit into the plan",
			advice: "Stop or delete other agents",
		},
	} {
		respond(p, "/api/v1/agents/"+id+"/diagnosis", diagnosis.Of(diagnosis.Facts{
			Agent:   record,
			Account: &billing.Account{Organization: organization.Organization{Status: c.status}}, Now: time.Now(),
		}))
		p.Reload()
		p.WaitFor("heading", c.title)
		p.Within("region", "What the agent is doing now").WaitText(c.advice)
	}
}

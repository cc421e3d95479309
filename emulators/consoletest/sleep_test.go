//go:build unix

package consoletest_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/plan"
)

// TestSleep_IsSeenSetAndEnded puts an agent to sleep, finds it in the list, and opens its dashboard, which wakes it.
// A member may open the dashboard, too.
func TestSleep_IsSeenSetAndEnded(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	p := admin.Open(t, "/console#/agents/new")
	dialog := p.Within("dialog", "New agent")
	dialog.WaitText("It falls asleep after 30 min without use, and a request wakes it.")
	p.Review("new-agent-sleeps")
	dialog.Click("button", "Close")

	id := admin.RunningAgent("sleeper")
	p.Open("/console#/agents/" + id + "/settings")
	card := p.Within("region", "Sleep")
	card.WaitText("A request or a schedule wakes it.")
	card.Click("button", "Change when it sleeps")
	dialog = p.Within("dialog", "When does it fall asleep?")
	dialog.Select("Falls asleep without use", "After another time")
	dialog.Fill("Minutes without use", "4")
	dialog.Click("button", "Save")
	dialog.WaitText("Give 5 to 10,080 minutes")
	p.Review("agent-sleep-setting")
	dialog.Fill("Minutes without use", "45")
	dialog.Click("checkbox", "Schedules")
	dialog.Click("button", "Save")
	p.WaitGone("dialog", "When does it fall asleep?")
	card.WaitText("After 45 min")
	card.WaitText("A request wakes it.")
	admin.AwaitAgent(id, "running")

	p.Open("/console#/agents/" + id)
	p.WaitText("Running")
	p.WaitNoText("restarting")
	p.Click("button", "More actions")
	p.Click("button", "Put to sleep")
	p.Within("dialog", "Put to sleep “sleeper”?").Click("button", "Put to sleep the agent")
	p.WaitText("The agent is asleep, because it was idle")
	p.WaitFor("button", "Wake")
	p.Within("region", "Time awake").WaitText("so far")
	p.Review("agent-asleep")

	p.Open("/console#/agents")
	p.Click("link", "Asleep 1")
	p.WaitURL("status=asleep")
	p.WaitFor("button", "Open the dashboard of sleeper")
	p.Review("agents-asleep")

	member := admin.Colleague("member").Open(t, "/console#/agents/"+id)
	member.WaitText("The agent is asleep, because it was idle")
	member.Click("button", "Open dashboard")
	member.Within("dialog", "The dashboard asks for a password").WaitText("It wakes when you sign in")

	address, _ := admin.Call(http.MethodGet, "/api/v1/agents/"+id, "", http.StatusOK)["dashboard_url"].(string)
	dashboard, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	p.Open("/console#/agents/" + id)
	p.Allow("http://" + dashboard.Host)
	tab := p.Popup(func() { p.Click("button", "Open dashboard") }).Patient(time.Minute)
	tab.WaitURL(dashboard.Host)
	tab.WaitTrue(`document.readyState === "complete" && document.body.innerText.trim() !== ""`)
	if text := tab.Text(); strings.Contains(text, "password") || strings.Contains(text, "asleep") {
		t.Errorf("the dashboard of the agent that was woken: %s", text)
	}
	admin.AwaitAgent(id, "running")
	p.Open("/console#/agents/" + id + "/history")
	p.WaitText("Agent fell asleep")
	p.WaitText("By an admin or an API key")
}

// TestSleep_IsInThePriceOfPlans says on the page with prices what sleeps.
func TestSleep_IsInThePriceOfPlans(t *testing.T) {
	t.Parallel()
	p := suite.Admin(t, plan.Hobby).Open(t, "/console#/billing")
	p.WaitText("Agents fall asleep after 30 min without use, unless you ask for another time")
	p.WaitText("Agents never sleep, unless you ask for it")
	p.Review("plans-sleep")
}

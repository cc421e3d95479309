//go:build unix

package consoletest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/identity"
)

func crowdAdmin() identity.Caller {
	return identity.Caller{OrganizationID: crowdOrganization, Role: identity.RoleAdmin}
}

func adminToken() string { return functiontest.AdminToken(crowdOrganization) }

// renderedRows counts the rows of agents in the document.
const renderedRows = `document.querySelectorAll('.rows [role="row"]').length`

// focusedRow is the text of the row that has the focus.
func focusedRow(p *consoletest.Page) string {
	return consoletest.Eval[string](p, `document.activeElement.closest('[role="row"]')?.innerText ?? ""`)
}

func fail(a *agent.Agent) {
	a.Status = agent.Error
	a.Failure = &agent.Failure{Code: "pod_crash_loop", Message: "The container exits.", Retryable: true}
}

func TestAgentList_RendersOnlyTheRowsOnScreen(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 2000)
	p := c.open(t, "#/agents", adminToken())
	p.WaitFor("link", "All 2,000")
	p.WaitTrue(renderedRows + " > 5 && " + renderedRows + " < 40")
	if got := consoletest.Eval[string](p, `document.querySelector('[role="table"]').ariaRowCount ??
		document.querySelector('[role="table"]').getAttribute("aria-rowcount")`); got != "2001" {
		t.Errorf("aria-rowcount = %s, want the header and 2000 agents", got)
	}
	p.Focus("link", "worker 1999")
	for key, want := range []struct{ key, name string }{
		{"ArrowDown", "worker 1998"},
		{"End", "worker 0000"},
		{"ArrowDown", "worker 0000"},
		{"ArrowUp", "worker 0001"},
		{"Home", "worker 1999"},
	} {
		p.Press(want.key)
		p.WaitTrue(fmt.Sprintf("document.activeElement.innerText === %q", want.name))
		if row := focusedRow(p); !strings.Contains(row, want.name) {
			t.Errorf("step %d: focus is on %q after %s, want %s", key, row, want.key, want.name)
		}
	}
	p.WaitTrue(renderedRows + " < 40")
	p.Axe()
}

func TestAgentList_KeepsItsFilterInTheAddress(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 150)
	c.add("broken", time.Now(), fail)
	p := c.open(t, "#/agents", adminToken())
	p.WaitFor("link", "All 151")
	p.Fill("Search", "worker 001")
	p.WaitFor("link", "All 10")
	p.WaitURL("q=worker+001")
	p.Select("Region", "europe-west4")
	p.WaitFor("link", "All 5")
	p.Click("button", "Name")
	p.WaitURL("sort=name")
	p.WaitTrue(`document.querySelector('.rows [role="row"]').innerText.includes("worker 0011")`)
	p.Back()
	p.WaitTrue(`document.querySelector('.rows [role="row"]').innerText.includes("worker 0019")`)
	p.Back()
	p.WaitFor("link", "All 10")
	p.Reload()
	p.WaitFor("link", "All 10")
	p.Fill("Search", "no such name")
	p.Click("button", "Show all agents")
	p.Click("link", "Error 1")
	p.WaitURL("status=error")
	p.WaitText("The agent exits soon after it starts")
	p.WaitTrue(renderedRows + " === 1")
}

func TestAgentList_FollowsChanges(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 250)
	id := c.add("newcomer", time.Now(), func(a *agent.Agent) { a.Status, a.Routed = agent.Provisioning, false })
	p := c.open(t, "#/agents", adminToken())
	p.WaitFor("link", "All 251")
	p.WaitFor("link", "Provisioning 1")
	// What did not change is answered without a body.
	p.WaitTrue(`performance.getEntriesByType("resource").some(
		e => e.name.includes("/api/v1/agents/") && e.responseStatus === 304)`)
	began := time.Now()
	c.change(id, func(a *agent.Agent) { a.Status, a.Routed = agent.Running, true })
	p.WaitGone("link", "Provisioning 1")
	t.Logf("a change of an agent that changes was shown after %s", time.Since(began))
	p.WaitTrue(`[...document.querySelectorAll('[role="status"]')].some(e => e.innerText === "newcomer: Running.")`)
	p.WaitTrue(`performance.getEntriesByType("resource").some(
		e => e.name.includes("/api/v1/agents?") && e.responseStatus === 304)`)
	c.change(id, fail)
	p.WaitFor("link", "Error 1") // a calm page is read every few seconds
	c.remove(id)
	p.WaitFor("link", "All 250")
}

func TestAgentList_ReturnsToItsPlace(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 300)
	p := c.open(t, "#/agents", adminToken())
	p.WaitFor("link", "All 300")
	p.Focus("link", "worker 0299")
	p.Press("End")
	p.WaitTrue(`document.activeElement.innerText === "worker 0000"`)
	p.Press("Enter")
	p.WaitURL("#/agents/" + c.at(299).ID)
	p.WaitTrue("scrollY === 0")
	p.Back()
	p.WaitTrue(`scrollY > 5000 && document.activeElement.innerText === "worker 0000"`)
}

func TestAgentList_Looks(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 2)
	for name, change := range map[string]func(*agent.Agent){
		"Support Assistant": fail,
		"a name that is longer than the column that shows the names of the agents in the table": func(a *agent.Agent) {
			a.Status, a.Routed, a.Stages[4].Status = agent.Provisioning, false, "running"
		},
		"billing bot": func(a *agent.Agent) { a.Status, a.StatusReason = agent.Paused, "billing" },
		"nightly":     func(a *agent.Agent) { a.Status = agent.Stopped },
		"Übersetzer":  func(a *agent.Agent) { a.Warming = true },
	} {
		c.add(name, time.Now(), change)
	}
	p := c.open(t, "#/agents", adminToken())
	p.WaitText("Support Assistant")
	p.Review("agents")
}

func TestAgentList_ExplainsAnEmptyOrganization(t *testing.T) {
	t.Parallel()
	p := newCrowd(t, 0).open(t, "#/agents", adminToken())
	p.WaitText("Create your first agent")
	p.Review("agents-empty")
	p.Click("button", "Create an agent")
	p.WaitFor("dialog", "New agent")
}

func TestAgentList_TellsMembersWhatTheyMayNotDo(t *testing.T) {
	t.Parallel()
	p := newCrowd(t, 3).open(t, "#/agents", functiontest.MemberToken(crowdOrganization))
	button := p.WaitFor("button", "New agent")
	if !button.Disabled || !strings.Contains(button.Description, "Only admins") {
		t.Errorf("button = %+v, want it disabled with the reason", button)
	}
	p.Open("/console#/agents/new")
	p.Within("dialog", "New agent").WaitText("Only admins")
}

// TestTimes_AreInTheZoneOfTheViewer shows when an agent was created to a viewer for whom it was the day before. The
// tooltip has the exact value in both zones.
func TestTimes_AreInTheZoneOfTheViewer(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 0)
	id := c.add("early", time.Date(2026, time.March, 2, 2, 30, 15, 0, time.UTC), nil)
	p := c.open(t, "#/agents", adminToken())
	p.SetTimezone("America/New_York")
	for _, place := range []string{"#/agents", "#/agents/" + id} {
		p.Open("/console" + place)
		p.Reload() // the zone of a document is that of its start
		const created = `document.querySelector('time[datetime^="2026-03-02T02:30:15"]')`
		p.WaitTrue(created + `?.innerText.startsWith("Mar 1")`)
		const want = "Sunday, March 1, 2026 at 9:30:15 PM EST (2026-03-02T02:30:15.000Z)"
		if got := consoletest.Eval[string](p, created+`.title.replace(/\s/g, " ")`); got != want {
			t.Errorf("%s: tooltip = %q, want %q", place, got, want)
		}
	}
}

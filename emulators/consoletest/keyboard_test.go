//go:build unix

package consoletest_test

import (
	"fmt"
	"net/http"
	"testing"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/plan"
)

// openAgent runs an agent of a new organization, and opens a tab of its page.
func openAgent(t *testing.T, name, tab string) (admin *consoletest.User, agent string, p *consoletest.Page) {
	t.Helper()
	admin = suite.Admin(t, plan.Starter)
	agent = admin.RunningAgent(name)
	return admin, agent, admin.Open(t, "/console#/agents/"+agent+tab)
}

// tabTo presses Tab until an element has the focus.
func tabTo(t *testing.T, p *consoletest.Page, role, name string) {
	t.Helper()
	var passed []string
	for range 60 {
		p.Press("Tab")
		e := p.Focused()
		if e.Role == role && e.Name == name {
			return
		}
		passed = append(passed, fmt.Sprintf("%s %q", e.Role, e.Name))
	}
	t.Fatalf("Tab does not reach the %s %q, but %v", role, name, passed)
}

// pressAt goes to an element, and presses Enter.
func pressAt(t *testing.T, p *consoletest.Page, role, name string) {
	t.Helper()
	tabTo(t, p, role, name)
	p.Press("Enter")
}

// checkFocus checks which element has the focus, once the page has moved it.
func checkFocus(t *testing.T, p *consoletest.Page, role, name string) {
	t.Helper()
	p.WaitUntil(role, name, "has the focus", func(e consoletest.Element) bool { return e.Focused })
}

// controls lists what takes the focus in the open dialog. Tab reaches one of the radio buttons of a group.
const controls = `[...document.querySelector("dialog[open]").querySelectorAll(
	"button, input, select, textarea, a[href], summary")].filter(e =>
	e.checkVisibility() && !e.disabled && (e.type !== "radio" || e.checked))`

// checkReachable presses Tab until all controls of the open dialog had the focus.
func checkReachable(t *testing.T, p *consoletest.Page) {
	t.Helper()
	most := consoletest.Eval[int](p, "(window.reached = new Set(), "+controls+".length)")
	for range most + 2 { // the focus leaves the page in between
		p.Press("Tab")
		consoletest.Eval[int](p, "window.reached.add(document.activeElement).size")
	}
	missed := consoletest.Eval[[]string](p, controls+".filter(e => !window.reached.has(e)).map(e => e.outerHTML)")
	if len(missed) > 0 {
		t.Errorf("Tab does not reach %v", missed)
	}
}

// TestKeyboard_CreatesAnAgent fills the dialog of a new agent without a mouse.
func TestKeyboard_CreatesAnAgent(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Startup)
	p := admin.Open(t, "/console#/agents")
	p.WaitFor("heading", "Create your first agent")
	p.Press("Tab")
	checkFocus(t, p, "button", "Skip to the content")
	p.Press("Enter")
	pressAt(t, p, "button", "New agent")
	checkFocus(t, p, "textbox", "Name")
	p.Press("Escape")
	p.WaitGone("dialog", "New agent")
	checkFocus(t, p, "button", "New agent")

	p.Press("Enter")
	checkFocus(t, p, "textbox", "Name")
	p.WaitText("Room for 5 more")
	p.Type("typed")
	tabTo(t, p, "radio", "Hobby")
	p.Press("ArrowDown")
	checkFocus(t, p, "radio", "Starter")
	pressAt(t, p, "button", "Add a variable")
	checkFocus(t, p, "textbox", "Name of variable 1")
	p.Type("LOG_LEVEL")
	tabTo(t, p, "textbox", "Value of LOG_LEVEL")
	p.Type("debug")
	checkReachable(t, p)
	tabTo(t, p, "button", "Remove LOG_LEVEL")
	pressAt(t, p, "button", "Create the agent")
	p.WaitGone("dialog", "New agent")
	checkFocus(t, p, "heading", "typed")
	p.WaitText("Starter plan")
	p.WaitFor("heading", "The agent is running")
	p.Click("link", "Variables")
	p.WaitFor("button", "Delete LOG_LEVEL")
}

// TestKeyboard_ActsOnAnAgent uses the actions of an agent without a mouse. Dialogs return the focus to their buttons.
func TestKeyboard_ActsOnAnAgent(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	admin.RunningAgent("typist")
	p := admin.Open(t, "/console#/agents")
	p.WaitFor("link", "typist")
	pressAt(t, p, "link", "typist")
	checkFocus(t, p, "heading", "typist")
	usePalette(t, p)

	pressAt(t, p, "button", "Restart")
	checkFocus(t, p, "button", "Restart the agent")
	checkReachable(t, p)
	p.Press("Escape")
	checkFocus(t, p, "button", "Restart")
	pressAt(t, p, "button", "Pause")
	checkFocus(t, p, "button", "Pause the agent")
	p.Press("Enter")
	p.WaitFor("heading", "The agent is paused")
	checkFocus(t, p, "button", "Resume")
	p.Press("Enter")
	checkFocus(t, p, "button", "Resume the agent")
	p.Press("Enter")
	p.WaitFor("heading", "The agent is running")
	// If the page shows that the agent starts, it has neither button, and the menu gets the focus.
	p.WaitTrue(`document.activeElement.closest(".agent-actions") !== null`)
	if p.Focused().Name != "More actions" {
		checkFocus(t, p, "button", "Pause")
		tabTo(t, p, "button", "More actions")
	}
	p.Press("Enter")
	tabTo(t, p, "button", "Stop")
	p.Press("Escape")
	checkFocus(t, p, "button", "More actions")
	p.Press("Enter")
	pressAt(t, p, "button", "Delete")
	checkFocus(t, p, "textbox", "Type typist to confirm")
	checkReachable(t, p)
	p.Press("Escape")
	checkFocus(t, p, "button", "More actions")
	p.Press("Enter")
	pressAt(t, p, "button", "Delete")
	checkFocus(t, p, "textbox", "Type typist to confirm")
	p.Type("typist")
	p.Press("Enter")
	checkFocus(t, p, "heading", "“typist” is deleted")
}

// usePalette finds an action and pages of the agent typist by their words.
func usePalette(t *testing.T, p *consoletest.Page) {
	t.Helper()
	const search = "Search agents, pages and actions"
	open := func(words string) {
		p.Press("Control+k")
		checkFocus(t, p, "combobox", search)
		p.Type(words)
	}
	open("paus")
	p.WaitFor("option", "Pause")
	p.Review("palette")
	p.Hold("Enter", func() { checkFocus(t, p, "button", "Pause the agent") }) // which confirms nothing
	checkFocus(t, p, "button", "Pause the agent")
	p.Press("Escape")
	p.WaitGone("dialog", "Pause “typist”?")
	checkFocus(t, p, "heading", "typist")
	open("nothing has these words")
	p.WaitText("Nothing has these words.")
	p.Press("Enter") // does nothing
	p.Press("Escape")
	p.WaitGone("dialog", "Commands")
	checkFocus(t, p, "heading", "typist")
	open("")
	p.Press("ArrowUp") // the last one
	p.Press("ArrowDown")
	p.Press("ArrowDown")
	p.WaitTrue(`document.querySelectorAll('[role="option"]')[1].getAttribute("aria-selected") === "true"`)
	p.Press("Escape")
	open("audit lo")
	p.Press("Enter")
	checkFocus(t, p, "heading", "Audit log")
	open("typist")
	p.Press("Enter")
	checkFocus(t, p, "heading", "typist")
}

// TestKeyboard_RenamesAndNavigates changes a name in place, and follows the links of an agent's page.
func TestKeyboard_RenamesAndNavigates(t *testing.T) {
	t.Parallel()
	_, _, p := openAgent(t, "before", "")
	p.WaitFor("heading", "The agent is running")
	pressAt(t, p, "button", "Rename the agent")
	checkFocus(t, p, "textbox", "Name")
	p.Press("Escape")
	checkFocus(t, p, "button", "Rename the agent")
	p.Press("Enter")
	checkFocus(t, p, "textbox", "Name")
	p.Type("after")
	p.Press("Enter")
	checkFocus(t, p, "button", "Rename the agent")
	p.WaitFor("heading", "after")
	for _, tab := range []string{"Metrics", "Logs", "Variables", "Schedules", "Credentials", "History", "Settings"} {
		pressAt(t, p, "link", tab)
		checkFocus(t, p, "heading", "after")
	}
	p.Press("Tab") // focus is above the tabs
	pressAt(t, p, "button", "Turn the sandbox on")
	p.WaitFor("dialog", "Turn the sandbox on?")
	checkFocus(t, p, "button", "Turn the sandbox on") // that of the dialog
	p.Press("Escape")
	p.WaitGone("dialog", "Turn the sandbox on?")
	checkFocus(t, p, "button", "Turn the sandbox on")
	for _, name := range []string{"Usage", "API keys", "Webhooks", "Members", "Billing", "Audit log", "Agents"} {
		p.Focus("link", name)
		p.Press("Enter")
		checkFocus(t, p, "heading", name)
	}
}

// TestKeyboard_KeepsItsPlaceAfterRemovals removes rows of lists without a mouse. The focus moves to the list's heading.
func TestKeyboard_KeepsItsPlaceAfterRemovals(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	admin.Call(http.MethodPost, "/api/v1/api-keys", `{"name": "old"}`, http.StatusCreated)
	agent := admin.CreateAgent("configured", map[string]string{"COLOR": "red", "SHAPE": "round"})
	p := admin.Open(t, "/console#/api-keys")
	p.WaitFor("button", "Revoke old")
	pressAt(t, p, "button", "Revoke old")
	p.WaitFor("dialog", "Revoke the key “old”?")
	pressAt(t, p, "button", "Revoke")
	p.WaitGone("button", "Revoke old")
	p.WaitTrue(`document.activeElement.matches("h2") && document.activeElement.innerText.includes("of at most")`)

	p.Open("/console#/agents/" + agent + "/variables")
	for _, name := range []string{"COLOR", "SHAPE"} {
		p.WaitFor("button", "Delete "+name)
		pressAt(t, p, "button", "Delete "+name)
		dialog := "Delete " + name + "?"
		p.WaitFor("dialog", dialog)
		checkFocus(t, p, "button", "Cancel")
		p.Press("Tab")
		p.Press("Enter")
		p.WaitGone("dialog", dialog)
		checkFocus(t, p, "heading", "Variables")
		p.WaitGone("button", "Delete "+name)
	}
	p.WaitText("The agent has no plain variables.")
	checkFocus(t, p, "heading", "Variables")
	tabTo(t, p, "link", "All changes") // what follows the list
}

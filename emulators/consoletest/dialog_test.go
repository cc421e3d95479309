//go:build unix

package consoletest_test

import (
	"fmt"
	"net/http"
	"testing"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/plan"
)

// refuseConfirmations makes the user refuse to close dialogs. The page counts how often it asked.
const refuseConfirmations = "window.asked = 0; window.confirm = () => { window.asked++; return false; }; 0"

// checkGuarded presses Escape again and again. The open dialog must ask each time and stay.
func checkGuarded(t *testing.T, p *consoletest.Page, title string) {
	t.Helper()
	consoletest.Eval[int](p, refuseConfirmations)
	asked := 0
	press := func() {
		p.Press("Escape")
		asked++
		p.WaitTrue(fmt.Sprintf(`window.asked === %d && document.querySelector("dialog[open]") !== null`, asked))
		p.WaitUntil("dialog", title, "is modal", func(e consoletest.Element) bool { return e.Modal })
	}
	for range 3 {
		press()
	}
	// Without the focus, the dialog does not see the key, and the browser closes it.
	for range 3 {
		consoletest.Eval[int](p, "(document.activeElement.blur(), 0)")
		press()
	}
}

// TestDialogs_StayWhileAPersonRefusesToCloseThem presses Escape where closing loses something.
func TestDialogs_StayWhileAPersonRefusesToCloseThem(t *testing.T) {
	t.Parallel()
	p := suite.Admin(t, plan.Starter).Open(t, "/console#/api-keys")
	p.Click("button", "Create a key")
	form := p.Within("dialog", "Create an API key")
	form.Fill("Name", "Backups")
	checkGuarded(t, p, "Create an API key")
	form.Click("button", "Create the key")
	title := "Save the key “Backups” now"
	p.WaitFor("dialog", title)
	checkGuarded(t, p, title)
	created := p.Within("dialog", title)
	created.Click("button", "Show the key")
	created.WaitText("so_")
	consoletest.Eval[int](p, "window.confirm = () => true; 0")
	p.Press("Escape")
	p.WaitGone("dialog", title)
	p.Containing("row", "Backups").WaitFor("button", "Revoke Backups")
}

// TestDialogs_ShowNotifications opens a dialog while a toast is shown, and copies something in it.
func TestDialogs_ShowNotifications(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	admin.Call(http.MethodPost, "/api/v1/api-keys", `{"name": "old"}`, http.StatusCreated)
	p := admin.Open(t, "/console#/api-keys")
	p.Click("button", "Revoke old")
	p.Within("dialog", "Revoke the key “old”?").Click("button", "Revoke")
	p.WaitText("The key old is revoked.")
	p.Click("button", "Create a key")
	form := p.Within("dialog", "Create an API key")
	form.WaitText("The key old is revoked.")
	p.Screenshot("dialog-toast")
	form.Fill("Name", "new")
	form.Click("button", "Create the key")
	created := p.Within("dialog", "Save the key “new” now")
	created.Click("button", "Copy the command")
	p.WaitTrue(`document.querySelector("dialog[open] > [aria-live]")?.innerText === "The command is copied."`)
}

// TestDialogs_OpenedByAPollStay ends a session without an input of the person.
func TestDialogs_OpenedByAPollStay(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Hobby)
	p := admin.Open(t, "/console#/agents")
	p.WaitFor("heading", "Create your first agent")
	refuseOnce(p, http.MethodGet, "/api/v1/")
	p.WaitFor("dialog", endedTitle)
	checkGuarded(t, p, endedTitle)
	dialog := p.Within("dialog", endedTitle)
	dialog.Fill("API key or session token", admin.Token)
	dialog.Click("button", "Use it")
	p.WaitGone("dialog", endedTitle)
	p.WaitFor("heading", "Create your first agent")
}

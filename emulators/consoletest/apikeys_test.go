//go:build unix

package consoletest_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/plan"
)

// rememberCopies keeps what the page copies to the clipboard, after the browser has accepted it.
const rememberCopies = `(() => {
	window.copied = undefined;
	const write = navigator.clipboard.writeText.bind(navigator.clipboard);
	navigator.clipboard.writeText = async text => { await write(text); window.copied = text; };
	return true;
})()`

// createKey creates a key on the page of the keys, and returns its secret, as copied from the dialog.
func createKey(t *testing.T, p *consoletest.Page, name, role string) string {
	t.Helper()
	p.Click("button", "Create a key")
	form := p.Within("dialog", "Create an API key")
	form.Click("button", "Create the key")
	form.WaitText("Give the key a name.")
	checkFocus(t, p, "textbox", "Name")
	form.Fill("Name", name)
	form.Select("Purpose", "Continuous integration")
	form.Select("Role", role)
	form.Select("Expires after", "30 days")
	form.Click("button", "Create the key")
	created := p.Within("dialog", "Save the key “"+name+"” now")
	if done := created.WaitFor("button", "Done"); !done.Disabled || done.Description == "" {
		t.Errorf("button Done = %+v, want it disabled with a reason until the key is saved", done)
	}
	created.WaitNoText("so_")
	created.Click("button", "Show the key")
	created.WaitText("so_")
	consoletest.Eval[bool](p, rememberCopies)
	created.Click("button", "Copy the key")
	p.WaitTrue("window.copied !== undefined")
	secret := consoletest.Eval[string](p, "window.copied")
	if shown := regexp.MustCompile(`so_\w+`).FindString(created.Text()); shown != secret {
		t.Error("the copied key is not the one that is shown")
	}
	created.WaitText(`curl -H "Authorization: Bearer $AGENTS_API_KEY" http`)
	created.WaitText("put it into the variable AGENTS_API_KEY")
	p.Review("api-key-created")
	created.Click("checkbox", "I have saved the key")
	created.Click("button", "Done")
	return secret
}

// TestAPIKeys_LiveFromCreationToRevocation creates a key, copies it, uses it, sees that it was used, and revokes it.
func TestAPIKeys_LiveFromCreationToRevocation(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	p := admin.Open(t, "/console#/api-keys")
	secret := createKey(t, p, "Deployments", "Admin: everything")
	row := p.Containing("row", "Deployments")
	row.WaitText("Never")
	if strings.Contains(p.Text(), secret) || strings.Contains(consoletest.Eval[string](p, storage), secret) {
		t.Error("the page still has the secret after the dialog closed")
	}
	program := *admin
	program.Token = secret
	program.Call(http.MethodGet, "/api/v1/agents", "", http.StatusOK)
	p.Reload()
	row.WaitNoText("Never")
	p.Review("api-keys")
	row.Click("button", "Revoke Deployments")
	p.Review("api-key-revoke")
	p.Within("dialog", "Revoke the key “Deployments”?").Click("button", "Revoke")
	p.WaitText("The key Deployments is revoked.")
	p.WaitGone("button", "Revoke Deployments")
	program.Call(http.MethodGet, "/api/v1/agents", "", http.StatusUnauthorized)
}

// TestAPIKeys_CreateAKeyThatMayOnlyRead creates a member key, sees its role, and uses the console with it.
func TestAPIKeys_CreateAKeyThatMayOnlyRead(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	p := admin.Open(t, "/console#/api-keys")
	program := *admin
	program.Token = createKey(t, p, "Watcher", "Member: only read")
	p.Containing("row", "Watcher").WaitText("Member, only reads")
	program.Call(http.MethodGet, "/api/v1/agents", "", http.StatusOK)
	program.Call(http.MethodPost, "/api/v1/agents", `{"name": "a", "resource_plan": "hobby"}`, http.StatusForbidden)
	reader := program.Open(t, "/console#/api-keys")
	reader.WaitText("Only admins can see and create API keys")
}

// storage is all that the page stores.
const storage = `JSON.stringify([{...sessionStorage}, {...localStorage}])`

// TestAPIKeys_SayThatTheSessionEnds revokes the key with which the console is used, and the keys that it created.
func TestAPIKeys_SayThatTheSessionEnds(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	parent := *admin
	parent.Token, _ = admin.Call(http.MethodPost, "/api/v1/api-keys", `{"name": "parent"}`,
		http.StatusCreated)["secret"].(string)
	child := *admin
	child.Token, _ = parent.Call(http.MethodPost, "/api/v1/api-keys", `{"name": "child"}`,
		http.StatusCreated)["secret"].(string)
	p := parent.Open(t, "/console#/api-keys")
	row := p.Containing("row", "You are signed in with it")
	row.Click("button", "Revoke parent")
	dialog := p.Within("dialog", "Revoke the key “parent”?")
	dialog.WaitText("You are signed in with this key")
	dialog.WaitText("Listed: child.")
	dialog.Click("checkbox", "Also revoke the keys that it created")
	dialog.Click("button", "Revoke and sign out")
	p.WaitFor("heading", "Sign in")
	child.Call(http.MethodGet, "/api/v1/me", "", http.StatusUnauthorized)
}

// TestWrongClock_ShowsTrueAges looks at a new key on computers whose clocks are fast and slow.
func TestWrongClock_ShowsTrueAges(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Hobby)
	admin.Call(http.MethodPost, "/api/v1/api-keys", `{"name": "new"}`, http.StatusCreated)
	for _, ahead := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
		p := admin.Page(t)
		shift := fmt.Sprintf("{ const now = Date.now; Date.now = () => now() + %d; }", ahead.Milliseconds())
		p.RunFirst(shift)
		p.Open("/console#/api-keys")
		p.WaitTrue(`/now|second|minute/.test(document.querySelector("table time")?.innerText)`)
	}
}

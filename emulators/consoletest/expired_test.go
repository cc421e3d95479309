//go:build unix

package consoletest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/plan"
)

const endedTitle = "Your session has ended"

// replaceSession changes the session that a tab stores, and loads the console with it.
func replaceSession(t *testing.T, p *consoletest.Page, change func(*storedSession)) {
	t.Helper()
	stored := sessionOf(p)
	change(&stored)
	text, err := json.Marshal(stored)
	if err != nil {
		t.Fatal(err)
	}
	consoletest.Eval[int](p, fmt.Sprintf("(sessionStorage.setItem('console.session', %q), 0)", text))
	p.Reload()
}

// waitRenewed waits until a tab has another token than before, and returns the new session.
func waitRenewed(p *consoletest.Page, before storedSession) storedSession {
	p.WaitTrue(fmt.Sprintf("JSON.parse(sessionStorage.getItem('console.session') ?? '{}').token !== %q", before.Token))
	return sessionOf(p)
}

// TestExpiredSession_RenewsSilently lets a token expire in the tab, and at the service only.
func TestExpiredSession_RenewsSilently(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Hobby)
	p := signedIn(t, admin)
	for name, change := range map[string]func(*storedSession){
		"nearly expired": func(s *storedSession) { s.Expires = 1 },
		"refused":        func(s *storedSession) { s.Token = admin.Expired().Token },
	} {
		before := sessionOf(p)
		replaceSession(t, p, func(s *storedSession) {
			change(s)
			before.Token = s.Token
		})
		after := waitRenewed(p, before)
		if after.RefreshToken == "" || after.RefreshToken == before.RefreshToken {
			t.Errorf("%s: the refresh token did not rotate", name)
		}
		p.WaitFor("heading", "Agents")
		p.WaitGone("dialog", endedTitle)
	}
}

// TestExpiredSession_AsksAndRepeatsTheRequestOnce ends the session at the issuer while a person creates an agent.
func TestExpiredSession_AsksAndRepeatsTheRequestOnce(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Hobby)
	p := signedIn(t, admin)
	p.Open("/console#/agents/new")
	p.Fill("Name", "typed once")
	p.Click("button", "Add a variable")
	p.Fill("Name of variable 1", "LOG_LEVEL")
	p.Fill("Value of LOG_LEVEL", "debug")
	endAtIssuer(t, p)
	refuseOnce(p, http.MethodPost, "/api/v1/agents")
	p.Click("button", "Create the agent")
	dialog := p.Within("dialog", endedTitle)
	dialog.WaitText("What you typed is still there, unless you sign in as another user or for another organization.")
	p.Review("session-ended")
	if got := agentNames(admin); len(got) != 0 {
		t.Fatalf("agents before the new sign-in: %v", got)
	}
	p.WaitTrue(`[...document.querySelectorAll("dialog input")].some(e => e.value === "typed once")`)
	window := p.Popup(func() { dialog.Click("button", "Sign in again") })
	window.Closes(func() { choose(window, "user_of_"+admin.Organization, admin.Organization, "Admin") })
	p.WaitFor("heading", "typed once")
	p.WaitGone("dialog", endedTitle)
	if got := agentNames(admin); !slices.Equal(got, []string{"typed once"}) {
		t.Errorf("agents = %v, want one", got)
	}
	p.WaitTrue(badge)
}

// TestExpiredSession_RepeatsNothingInAnotherOrganization signs in again for another organization.
func TestExpiredSession_RepeatsNothingInAnotherOrganization(t *testing.T) {
	t.Parallel()
	admin, other := suite.Admin(t, plan.Hobby), suite.Admin(t, plan.Hobby)
	p := signedIn(t, admin)
	p.Open("/console#/agents/new")
	p.Fill("Name", "typed once")
	endAtIssuer(t, p)
	refuseOnce(p, http.MethodPost, "/api/v1/agents")
	p.Click("button", "Create the agent")
	dialog := p.Within("dialog", endedTitle)
	window := p.Popup(func() { dialog.Click("button", "Sign in again") })
	window.Closes(func() { choose(window, "user_of_"+other.Organization, other.Organization, "Admin") })
	p.WaitText("You signed in with another account, key or organization")
	p.WaitText(other.Organization) // the page is the other organization's now
	p.WaitText("Room for 1 more")
	p.WaitTrue(`document.querySelector("dialog input").value === "typed once"`)
	if got := append(agentNames(admin), agentNames(other)...); len(got) != 0 {
		t.Errorf("agents = %v, want none", got)
	}
	p.Click("button", "Create the agent")
	p.WaitFor("heading", "typed once")
	if got := agentNames(other); !slices.Equal(got, []string{"typed once"}) {
		t.Errorf("agents of the other organization = %v, want one", got)
	}
}

// TestExpiredSession_AsksForAnotherKey revokes the key that a person pasted.
func TestExpiredSession_AsksForAnotherKey(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Hobby)
	key := admin.Call(http.MethodPost, "/api/v1/api-keys", `{"name": "old"}`, http.StatusCreated)
	holder := *admin
	holder.Token, _ = key["secret"].(string)
	p := holder.Open(t, "/console#/agents")
	p.WaitFor("heading", "Create your first agent")
	admin.Call(http.MethodDelete, fmt.Sprint("/api/v1/api-keys/", key["id"]), "", http.StatusNoContent)
	p.Click("link", "Usage")
	dialog := p.Within("dialog", endedTitle)
	dialog.Fill("API key or session token", holder.Token)
	dialog.Click("button", "Use it")
	dialog.WaitUntil("textbox", "API key or session token", "is wrong", isInvalid)
	p.Review("session-ended-key")
	dialog.Fill("API key or session token", admin.Token)
	dialog.Click("button", "Use it")
	p.WaitGone("dialog", endedTitle)
	p.WaitFor("heading", "Usage")
}

// TestExpiredSession_EndsFromItsDialog signs out where the console asks to sign in again.
func TestExpiredSession_EndsFromItsDialog(t *testing.T) {
	t.Parallel()
	p := suite.Admin(t, plan.Hobby).Expired().Open(t, "/console#/agents")
	p.Within("dialog", endedTitle).Click("button", "Sign out")
	p.WaitFor("button", "Continue with *")
	if got := sessionOf(p); got != (storedSession{}) {
		t.Error("the tab keeps its session")
	}
}

// TestDuplicatedTab_LeavesTheSessionToTheFirst copies the storage of a tab, as a browser does that duplicates it.
func TestDuplicatedTab_LeavesTheSessionToTheFirst(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Hobby)
	p := signedIn(t, admin)
	for range 5 {
		p.Reload()
		p.WaitFor("heading", "Agents")
		if sessionOf(p).RefreshToken == "" {
			t.Fatal("the tab lost its refresh token when it was loaded again")
		}
	}
	other := p.Popup(func() { consoletest.Eval[int](p, "(open('/console#/agents'), 0)") })
	other.WaitFor("heading", "Agents")
	if sessionOf(other).RefreshToken != "" {
		t.Error("both tabs have the refresh token")
	}
	refuseOnce(other, http.MethodGet, "/api/v1/")
	dialog := other.Within("dialog", endedTitle)
	before := sessionOf(p)
	replaceSession(t, p, func(s *storedSession) { s.Expires = 1 })
	waitRenewed(p, before)
	dialog.Click("button", "Sign in again") // the issuer knows the user, so the window closes by itself
	other.WaitGone("dialog", endedTitle)
	for _, tab := range []*consoletest.Page{p, other} {
		before := sessionOf(tab)
		replaceSession(t, tab, func(s *storedSession) { s.Expires = 1 })
		waitRenewed(tab, before)
		tab.WaitFor("heading", "Agents")
	}
}

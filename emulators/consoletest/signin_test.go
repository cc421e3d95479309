//go:build unix

package consoletest_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/plan"
)

// TestFirstVisit_FromTheLinkToTheDashboard is the story of a newcomer: the sign-in link, the first agent, its
// dashboard, and the way out.
func TestFirstVisit_FromTheLinkToTheDashboard(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	link := ticket(t, admin)
	p := suite.Guest(t)
	p.Open(link)
	p.WaitFor("heading", "Create your first agent")
	if got := p.URL(); strings.Contains(got, "?") {
		t.Errorf("the address keeps what the issuer added: %s", got)
	}
	p.Click("button", "Create an agent")
	p.Within("dialog", "New agent").Fill("Name", "first")
	p.Click("button", "Create the agent")
	p.WaitFor("heading", "first")
	p.WaitTrue(badge + ` === "Running"`)
	openDashboard(t, admin, p)

	openAccount(t, p)
	p.Click("button", "Sign out")
	p.WaitFor("button", "Continue with *")
	if got := sessionOf(p); got != (storedSession{}) {
		t.Error("the tab keeps its session after the user signed out")
	}
	p.Expect("status 410")
	p.Open(link)
	p.WaitFor("heading", "This link has been used or has expired")
	p.Open("/console")
	goToIssuer(p) // which does not remember the user
	p.WaitFor("heading", "Sign in")
}

// badge is the status on the page of an agent.
const badge = `document.querySelector(".agent-head .badge")?.innerText.trim()`

// openDashboard opens the dashboard of the only agent, and checks that nothing asks for a password.
func openDashboard(t *testing.T, admin *consoletest.User, p *consoletest.Page) {
	t.Helper()
	id := p.URL()[strings.LastIndex(p.URL(), "/")+1:]
	address, _ := admin.Call(http.MethodGet, "/api/v1/agents/"+id, "", http.StatusOK)["dashboard_url"].(string)
	dashboard, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	p.Allow("http://" + dashboard.Host)
	tab := p.Popup(func() { p.Click("button", "Open dashboard") })
	tab.WaitURL(dashboard.Host)
	tab.WaitTrue(`document.readyState === "complete" && document.body.innerText.trim() !== ""`)
	if text := tab.Text(); strings.Contains(text, "password") || strings.Contains(text, "nauthorized") {
		t.Errorf("the dashboard asks again: %s", text)
	}
	tab.Screenshot("dashboard")
}

// TestSignIn_KeepsTheDeepLink signs in at the issuer's page, cancels first, and switches the organization afterwards.
func TestSignIn_KeepsTheDeepLink(t *testing.T) {
	t.Parallel()
	first, second := suite.Admin(t, plan.Hobby), suite.Admin(t, plan.Hobby)
	first.CreateAgent("only of the first", nil)
	second.CreateAgent("only of the second", nil)
	p := suite.Guest(t)
	p.Open("/console#/agents?q=only")
	p.WaitFor("button", "Continue with *")
	p.Review("sign-in")
	goToIssuer(p)
	p.WaitFor("heading", "Sign in")
	p.Review("issuer-choice")
	p.Click("link", "Cancel")
	p.WaitText("The user canceled the sign-in.")
	goToIssuer(p)
	choose(p, "user_of_both", first.Organization, "Admin")
	p.WaitFor("link", "only of the first")
	if got, want := p.URL(), suite.Cloud(t).Ready.BaseURL+"/console#/agents?q=only"; got != want {
		t.Errorf("address after the sign-in = %s, want %s", got, want)
	}

	openAccount(t, p)
	p.WaitText("Role: admin")
	p.Click("button", "Switch user or organization")
	choose(p, "user_of_both", second.Organization, "Member")
	p.WaitFor("link", "only of the second")
	p.WaitNoText("only of the first")
	openAccount(t, p)
	p.WaitText(second.Organization)
	p.WaitText("Role: member")
	p.Press("Escape")
	p.Back()
	p.WaitFor("heading", "Sign in")
	p.Forward()
	p.WaitFor("link", "only of the second")
	p.WaitNoText("only of the first")
}

// TestSignIn_CanceledSwitchChangesNothing cancels while another organization is chosen.
func TestSignIn_CanceledSwitchChangesNothing(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Hobby)
	p := signedIn(t, admin)
	p.Click("link", "API keys")
	p.WaitFor("heading", "API keys")
	openAccount(t, p)
	p.Click("button", "Switch user or organization")
	p.Click("link", "Cancel")
	p.WaitFor("heading", "API keys")
	p.WaitText("The user canceled the sign-in.")
	openAccount(t, p)
	p.WaitText(admin.Organization)
	p.Review("account")
}

// TestSignIn_TakesAnAPIKey pastes a key into the page for guests, after a wrong one.
func TestSignIn_TakesAnAPIKey(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Hobby)
	secret, _ := admin.Call(http.MethodPost, "/api/v1/api-keys", `{"name": "laptop"}`,
		http.StatusCreated)["secret"].(string)
	p := suite.Guest(t)
	p.Open("/console#/usage")
	p.Click("DisclosureTriangle", "Use an API key or a token")
	p.Click("button", "Use it")
	p.WaitText("Paste an API key, which begins with so_, or a session token.")
	p.Fill("API key or session token", "so_"+strings.Repeat("0", len(secret)-3))
	p.Click("button", "Use it")
	p.WaitUntil("textbox", "API key or session token", "is wrong", isInvalid)
	p.WaitText("This key is not valid. It may be mistyped, expired or revoked.")
	p.WaitTrue(`sessionStorage.getItem("console.session") === null`)
	p.Review("sign-in-wrong-key")
	p.Fill("API key or session token", "ey.a.token")
	p.Press("Enter")
	p.WaitText("This token is not valid.")
	p.Fill("API key or session token", " "+secret+" ")
	p.Press("Enter")
	p.WaitFor("heading", "Usage")
	p.WaitURL("#/usage")
	openAccount(t, p)
	p.WaitText("API key " + secret[:6])
	if strings.Contains(consoletest.Eval[string](p, "JSON.stringify({...localStorage})+location.href"), secret) {
		t.Error("the key is outside of the tab's storage")
	}
	p.Click("button", "Sign out")
	p.WaitFor("button", "Continue with *")
}

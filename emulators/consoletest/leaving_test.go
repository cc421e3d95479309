//go:build unix

package consoletest_test

import (
	"fmt"
	"net/http"
	"testing"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/plan"
)

// newKey creates an API key of a user's organization and returns a user that has only the key, and the key's path.
func newKey(u *consoletest.User, name string) (holder consoletest.User, path string) {
	key := u.Call(http.MethodPost, "/api/v1/api-keys", fmt.Sprintf(`{"name": %q}`, name), http.StatusCreated)
	holder = *u
	holder.Token, _ = key["secret"].(string)
	return holder, fmt.Sprint("/api/v1/api-keys/", key["id"])
}

// TestExpiredSession_KeepsTheFormForAnotherKey revokes the key that a person pasted while a form is open, and goes on
// with another key of the organization.
func TestExpiredSession_KeepsTheFormForAnotherKey(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Hobby)
	first, path := newKey(admin, "old")
	second, _ := newKey(admin, "new")
	p := first.Open(t, "/console#/api-keys")
	p.Click("button", "Create a key")
	form := p.Within("dialog", "Create an API key")
	form.Fill("Name", "typed once")
	admin.Call(http.MethodDelete, path, "", http.StatusNoContent)
	form.Click("button", "Create the key")
	dialog := p.Within("dialog", endedTitle)
	dialog.Fill("API key or session token", second.Token)
	dialog.Click("button", "Use it")
	p.WaitGone("dialog", endedTitle)
	form.WaitText("You signed in with another account, key or organization")
	form.WaitNoText("It is not known")
	form.Click("button", "Create the key")
	p.WaitFor("dialog", "Save the key “typed once” now")
}

// TestSignOut_ForgetsWhatWasShown signs out where the console asks to sign in again, and goes on as another caller.
func TestSignOut_ForgetsWhatWasShown(t *testing.T) {
	t.Parallel()
	admin, other := suite.Admin(t, plan.Hobby), suite.Admin(t, plan.Hobby)
	admin.CreateAgent("of the first", nil)
	holder, path := newKey(admin, "first")
	next, _ := newKey(other, "second")
	p := holder.Open(t, "/console#/agents")
	p.WaitFor("link", "of the first")
	admin.Call(http.MethodDelete, path, "", http.StatusNoContent)
	p.Within("dialog", endedTitle).Click("button", "Sign out")
	p.WaitFor("button", "Continue with *")

	release := make(chan struct{})
	p.Respond(http.MethodGet, "/api/v1/", consoletest.Response{Hold: release})
	p.Respond(http.MethodGet, "/api/v1/me", consoletest.Response{Times: 1}) // checks the key
	p.Click("DisclosureTriangle", "Use an API key or a token")
	p.Fill("API key or session token", next.Token)
	p.Click("button", "Use it")
	p.WaitText("Loading …")
	close(release)
	p.WaitFor("heading", "Create your first agent")
	p.WaitNoText("of the first")
	p.WaitNoText(admin.Organization)
}

// TestSignIn_EndsOnlyTheWindowOfAnOpener opens the address with which the issuer returns where no page waits for it.
func TestSignIn_EndsOnlyTheWindowOfAnOpener(t *testing.T) {
	t.Parallel()
	p := suite.Guest(t)
	p.Open("/console?state=unknown&code=any")
	p.WaitText("This sign-in began in another tab, or was finished already. Sign in again.")
	p.WaitFor("button", "Continue with *")
}

// TestUnusableSession_HasAWayOut makes the service refuse to say who the caller is, and refuse each token.
func TestUnusableSession_HasAWayOut(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Hobby)
	p := signedIn(t, admin)
	p.Respond(http.MethodGet, "/api/v1/agents",
		refusal(http.StatusUnauthorized, "invalid_token", "The token is refused."))
	p.Within("dialog", endedTitle).Click("button", "Sign out")
	p.WaitFor("heading", "Sign in")

	p = signedIn(t, admin)
	p.Respond(http.MethodGet, "/api/v1/me", refusal(http.StatusInternalServerError, "internal", "It failed."))
	p.Reload()
	p.WaitText("It failed.")
	p.Review("no-caller")
	p.Click("button", "Sign out")
	p.WaitFor("heading", "Sign in")
}

// TestRenewal_ReadsTheCallerOnce counts calls after the renewal of a token.
func TestRenewal_ReadsTheCallerOnce(t *testing.T) {
	t.Parallel()
	p := signedIn(t, suite.Admin(t, plan.Hobby))
	before := sessionOf(p)
	expire(t, p)
	waitRenewed(p, before)
	const calls = `performance.getEntriesByType("resource").filter(e => e.name.includes(%q)).length`
	p.WaitTrue(fmt.Sprintf(calls, "/api/v1/agents") + " >= 3") // one each 5 s
	if got := consoletest.Eval[int](p, fmt.Sprintf(calls, "/api/v1/me")); got > 3 {
		t.Errorf("calls of /api/v1/me = %d, want at most 3", got)
	}
}

// TestSignOut_WaitsForNothing switches and signs out while the issuer does not answer.
func TestSignOut_WaitsForNothing(t *testing.T) {
	t.Parallel()
	p := signedIn(t, suite.Admin(t, plan.Hobby))
	p.Reload()
	p.WaitFor("heading", "Agents")
	const discovery = "/.well-known/openid-configuration"
	p.Respond(http.MethodGet, discovery, consoletest.Response{Lost: true, Times: 1})
	openAccount(t, p)
	p.Click("button", "Switch user or organization")
	p.WaitText("The identity provider could not be reached.")

	release := make(chan struct{})
	p.Respond(http.MethodGet, discovery, consoletest.Response{Hold: release})
	p.Click("button", "Sign out")
	p.WaitFor("button", "Continue with *")
	if got := sessionOf(p); got != (storedSession{}) {
		t.Error("the tab keeps its session until the issuer answers")
	}
	close(release)
	p.WaitFor("button", "Continue with *")
}

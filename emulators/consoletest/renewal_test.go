//go:build unix

package consoletest_test

import (
	"net/http"
	"testing"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/plan"
)

const tokenEndpoint = "/token"

// expire makes the token of a tab expire, and loads the page again.
func expire(t *testing.T, p *consoletest.Page) {
	t.Helper()
	replaceSession(t, p, func(s *storedSession) { s.Expires = 1 })
}

// passDay moves the clock of a page, so that its next call needs another token.
const passDay = `(() => { const now = Date.now; Date.now = () => now() + 86_400_000; return 0 })()`

// TestRenewal_WaitsForTheIssuer makes the issuer fail for a while when a token expires.
func TestRenewal_WaitsForTheIssuer(t *testing.T) {
	t.Parallel()
	p := signedIn(t, suite.Admin(t, plan.Hobby))
	for name, outage := range map[string]struct {
		response consoletest.Response
		message  string
	}{
		"status 503": {
			response: consoletest.Response{
				Status: http.StatusServiceUnavailable, Header: map[string]string{"Access-Control-Allow-Origin": "*"},
			},
			message: "The identity provider answered with status 503.",
		},
		"page of a proxy": {
			response: consoletest.Response{
				Status: http.StatusForbidden, Body: "<h1>Sign in to the network</h1>",
				Header: map[string]string{"Access-Control-Allow-Origin": "*"},
			},
			message: "The identity provider answered with status 403.",
		},
		"lost connection": {
			response: consoletest.Response{Lost: true},
			message:  "The identity provider could not be reached.",
		},
	} {
		p.Respond(http.MethodPost, tokenEndpoint, outage.response)
		before := sessionOf(p)
		expire(t, p)
		p.WaitText(outage.message)
		if len(p.All("dialog", endedTitle)) > 0 {
			t.Errorf("%s: the console asks to sign in again", name)
		}
		p.Respond(http.MethodPost, tokenEndpoint, consoletest.Response{})
		p.WaitFor("heading", "Agents")
		if waitRenewed(p, before).RefreshToken == before.RefreshToken {
			t.Errorf("%s: the session was not renewed", name)
		}
	}
}

// TestRenewal_SendsNothingInAnotherOrganization signs in again for another organization while a change waits for the
// renewal of a token.
func TestRenewal_SendsNothingInAnotherOrganization(t *testing.T) {
	t.Parallel()
	admin, other := suite.Admin(t, plan.Hobby), suite.Admin(t, plan.Hobby)
	p := signedIn(t, admin)
	p.Open("/console#/agents/new")
	p.Fill("Name", "typed once")
	endAtIssuer(t, p)
	release := make(chan struct{})
	p.Respond(http.MethodPost, tokenEndpoint, consoletest.Response{Hold: release, Times: 1})
	consoletest.Eval[int](p, passDay)
	p.Click("button", "Create the agent")
	close(release)
	dialog := p.Within("dialog", endedTitle)
	window := p.Popup(func() { dialog.Click("button", "Sign in again") })
	window.Closes(func() { choose(window, "user_of_"+other.Organization, other.Organization, "Admin") })
	p.WaitText("You signed in with another account, key or organization")
	if got := append(agentNames(admin), agentNames(other)...); len(got) != 0 {
		t.Errorf("agents = %v, want none", got)
	}
}

// recordTokens remembers whether a renewal has begun, and whether a call has no token.
const recordTokens = `(() => {
	const send = fetch;
	window.fetch = (address, init) => {
		window.renewing ||= String(address).endsWith("/token");
		window.emptyToken ||= init?.headers?.get?.("Authorization")?.trim() === "Bearer";
		return send(address, init);
	};
	return 0;
})()`

// TestSignOut_WinsOverARenewal signs out while a token is renewed, at an issuer without a page for that.
func TestSignOut_WinsOverARenewal(t *testing.T) {
	t.Parallel()
	p := signedIn(t, suite.Admin(t, plan.Hobby))
	issuer := suite.Cloud(t).Issuer.URL()
	p.Respond(http.MethodGet, "/.well-known/openid-configuration", consoletest.Response{
		Status: http.StatusOK, Header: map[string]string{"Access-Control-Allow-Origin": "*"},
		Body: `{"issuer": "` + issuer + `", "token_endpoint": "` + issuer + `/token",
			"authorization_endpoint": "` + issuer + `/authorize"}`,
	})
	p.Reload()
	p.WaitFor("heading", "Agents")
	consoletest.Eval[int](p, recordTokens)
	release := make(chan struct{})
	p.Respond(http.MethodPost, tokenEndpoint, consoletest.Response{Hold: release, Times: 1})
	consoletest.Eval[int](p, passDay)
	p.WaitTrue("window.renewing")
	openAccount(t, p)
	p.Click("button", "Sign out")
	p.WaitFor("button", "Continue with *")
	close(release)
	p.WaitIdle()
	p.WaitFor("button", "Continue with *")
	if got := sessionOf(p); got != (storedSession{}) {
		t.Error("the renewal began the session again")
	}
	if consoletest.Eval[bool](p, "Boolean(window.emptyToken)") {
		t.Error("a call was sent without a token")
	}
}

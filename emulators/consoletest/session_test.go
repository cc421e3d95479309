//go:build unix

package consoletest_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/emulators/issuer"
)

// storedSession is what the console keeps of a session.
type storedSession struct {
	Kind         string  `json:"kind"`
	Token        string  `json:"token,omitempty"`
	IDToken      string  `json:"idToken,omitempty"`
	RefreshToken string  `json:"refreshToken,omitempty"`
	Expires      float64 `json:"expires,omitempty"`
}

// sessionOf returns the session of a tab; the zero value if it has none.
func sessionOf(p *consoletest.Page) storedSession {
	var stored storedSession
	text := consoletest.Eval[string](p, `sessionStorage.getItem("console.session") ?? "{}"`)
	_ = json.Unmarshal([]byte(text), &stored) // stays empty
	return stored
}

// ticket returns a link that signs a user in once.
func ticket(t *testing.T, u *consoletest.User) string {
	t.Helper()
	c := suite.Cloud(t)
	return c.Issuer.Ticket(issuer.Session{
		Subject: "user_of_" + u.Organization, Organization: u.Organization, Role: u.Role,
	}, c.Ready.ConsoleURL())
}

// signedIn returns a page on which a user has signed in at the issuer.
func signedIn(t *testing.T, u *consoletest.User) *consoletest.Page {
	t.Helper()
	p := suite.Guest(t)
	p.Open(ticket(t, u))
	p.WaitFor("heading", "Agents")
	return p
}

// choose signs in on the page of the issuer, as a user that it does not offer.
func choose(p *consoletest.Page, subject, organization, role string) {
	p.WaitFor("heading", "Sign in")
	p.Click("DisclosureTriangle", "Someone else")
	p.Fill("User ID", subject)
	p.Fill("Organization ID (optional)", organization)
	p.Click("radio", role)
	p.Click("button", "Sign in")
}

// goToIssuer leaves the console's page for guests.
func goToIssuer(p *consoletest.Page) {
	p.Click("button", "Continue with *")
	p.WaitURL("/authorize?")
}

// openAccount opens the menu of who is signed in.
func openAccount(t *testing.T, p *consoletest.Page) {
	t.Helper()
	p.WaitFor("banner", "")
	p.Within("group", "Account").Click("button", "")
	p.WaitFor("button", "Sign out")
}

// endAtIssuer signs a tab's user out at the issuer, as a sign-out in another program does. The tab's access token stays
// valid.
func endAtIssuer(t *testing.T, p *consoletest.Page) {
	t.Helper()
	address := strings.TrimSuffix(suite.Cloud(t).Issuer.URL(), "/") + "/logout?id_token_hint=" + sessionOf(p).IDToken
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("sign out at the issuer: status %d, %v", res.StatusCode, err)
	}
}

// agentNames returns the names of the agents that a user sees.
func agentNames(u *consoletest.User) []string {
	var names []string
	list, _ := u.Call(http.MethodGet, "/api/v1/agents", "", http.StatusOK)["list"].([]any)
	for _, item := range list {
		agent, _ := item.(map[string]any)
		name, _ := agent["name"].(string)
		names = append(names, name)
	}
	return names
}

// isInvalid is a state of fields.
func isInvalid(e consoletest.Element) bool { return e.Invalid }

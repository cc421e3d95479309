//go:build unix

package consoletest_test

import (
	"fmt"
	"net/http"
	"testing"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/plan"
)

// setSecret sets a secret on the page of an agent's variables.
func setSecret(p *consoletest.Page, name, value string) {
	p.Click("button", "Set variables")
	dialog := p.Within("dialog", "Set variables")
	dialog.Fill("Name of variable 1", name)
	dialog.Fill("Value of "+name, value)
	dialog.Click("button", "Save")
	p.WaitGone("dialog", "Set variables")
}

// TestSecretRotation_IsFollowedUntilThePodHasTheValue sets a secret and replaces it. A pod that is not ready keeps the
// second change open until the story has seen it.
func TestSecretRotation_IsFollowedUntilThePodHasTheValue(t *testing.T) {
	t.Parallel()
	admin, agent, p := openAgent(t, "rotates", "/variables")
	p.WaitText("The agent has no secrets.")
	setSecret(p, "API_TOKEN", "first-value")
	secret := p.Containing("listitem", "version")
	secret.WaitText("In use")
	secret.WaitText("version 1")

	suite.Break(t, agent, cluster.NotReady)
	secret.Click("button", "Set API_TOKEN to a new value")
	dialog := p.Within("dialog", "Set API_TOKEN")
	dialog.WaitText("Its present value is replaced.")
	dialog.Fill("Value of API_TOKEN", "second-value")
	dialog.Click("button", "Save")
	p.WaitGone("dialog", "Set API_TOKEN")
	secret.WaitText("version 2")
	secret.WaitText("Not in the pod yet")
	p.WaitText("Under way")
	p.WaitTrue(`document.querySelector('[aria-current="step"]')?.innerText.includes("Replace the pod")`)
	p.Review("variables-rotation")

	suite.Break(t, agent, "")
	secret.WaitText("In use")
	secret.WaitText("version 2")
	p.WaitNoText("Store the new value")
	p.WaitText("Done")
	list := admin.Call(http.MethodGet, "/api/v1/agents/"+agent+"/secrets", "", http.StatusOK)["list"]
	one, _ := list.([]any)[0].(map[string]any)
	if one["live_version"] != one["latest_version"] || one["in_sync"] != true {
		t.Errorf("secret = %v, want the latest version in the pod", one)
	}
}

// TestSecretRotation_IsReconciledAfterItFailed retries a change whose pod crashed. The new pod is ready only when the
// story has seen the retry.
func TestSecretRotation_IsReconciledAfterItFailed(t *testing.T) {
	t.Parallel()
	_, agent, p := openAgent(t, "stumbles", "/variables")
	p.WaitText("The agent has no secrets.")
	suite.Break(t, agent, cluster.NotReady) // if it crashed now, the agent could be in error before the change
	setSecret(p, "API_TOKEN", "value")
	p.WaitTrue(`document.querySelector('[aria-current="step"]')?.innerText.includes("Replace the pod")`)
	suite.Break(t, agent, cluster.CrashLoop)
	change := p.Containing("listitem", "Code pod_crash_loop")
	change.WaitText("The agent exits soon after it starts")
	change.WaitText("Failed")
	p.Review("variables-failed")

	suite.Break(t, agent, cluster.NotReady)
	change.WaitText("It replaces the pod again")
	change.Click("button", "Retry this step")
	p.WaitNoText("Failed")
	suite.Break(t, agent, "")
	p.WaitNoText("Store the new value")
	p.WaitText("In use")
	p.WaitText("Done")
	p.WaitUntil("button", "Restart", "is enabled", enabled) // the agent runs again
}

// holdReveal keeps the timer that hides credentials after a minute from firing: endReveal does what it would do. Other
// timers run.
const holdReveal = `(() => {
	const later = window.setTimeout;
	window.setTimeout = (f, ms, ...rest) => {
		if (!(ms > 30_000 && ms <= 60_000)) return later(f, ms, ...rest);
		window.endReveal = f;
		return 0;
	};
})()`

// endReveal ends the minute for which credentials are shown.
func endReveal(p *consoletest.Page) {
	consoletest.Eval[int](p, "(window.endReveal(), 0)")
	p.WaitFor("button", "Reveal the credentials")
}

// credentials are the values that a page reveals.
type credentials struct{ user, password, key string }

// reveal reads the revealed credentials.
func reveal(p *consoletest.Page) credentials {
	p.Click("button", "Reveal the credentials")
	p.WaitFor("button", "Copy the password")
	shown := consoletest.Eval[[]string](p, `[...document.querySelectorAll("dl.credentials code")].map(e => e.innerText)`)
	return credentials{user: shown[0], password: shown[1], key: shown[2]}
}

// checkAccepted checks the status with which an agent answers its password and its key.
func checkAccepted(t *testing.T, dashboard string, c credentials, want int) {
	t.Helper()
	for name, set := range map[string]func(*http.Request){
		"password": func(r *http.Request) { r.SetBasicAuth(c.user, c.password) },
		"key":      func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+c.key) },
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, dashboard+"auth/check", nil)
		if err != nil {
			t.Fatal(err)
		}
		set(req)
		res, err := suite.Cloud(t).Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
		if res.StatusCode != want {
			t.Errorf("the agent answers the %s with status %d, want %d", name, res.StatusCode, want)
		}
	}
}

// TestCredentials_AreRevealedAndRotated reveals the credentials until they are hidden, and rotates them. The agent then
// refuses the old ones.
func TestCredentials_AreRevealedAndRotated(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	agent := admin.RunningAgent("guarded")
	dashboard, _ := admin.AwaitAgent(agent, "running")["dashboard_url"].(string)
	p := admin.Page(t)
	p.RunFirst(holdReveal)
	p.Open("/console#/agents/" + agent + "/credentials")
	p.WaitText("The credentials were never rotated.")
	former := reveal(p)
	checkAccepted(t, dashboard, former, http.StatusNoContent)
	endReveal(p)
	checkHidden(t, p, former)

	suite.Break(t, agent, cluster.NotReady) // the rotation stays open until the story has seen it
	p.Click("button", "Rotate the credentials")
	dialog := p.Within("dialog", "Rotate the credentials?")
	dialog.WaitText("The pod is replaced")
	p.Review("credentials-rotate")
	dialog.Click("button", "Rotate the credentials")
	p.WaitText("Rotating …")
	p.WaitTrue(`document.querySelector('[aria-current="step"]')?.innerText.includes("Replace the pod")`)
	p.Review("credentials-rotation")
	suite.Break(t, agent, "")
	p.WaitText("The newest credentials are in use")
	checkAccepted(t, dashboard, former, http.StatusUnauthorized)
	latter := reveal(p)
	checkAccepted(t, dashboard, latter, http.StatusNoContent)
	endReveal(p)
	checkHidden(t, p, latter)
}

// TestCredentialRotation_IsRetriedAfterItFailed rotates the credentials while the new pod crashes. The page says so
// without spinning, and offers a retry.
func TestCredentialRotation_IsRetriedAfterItFailed(t *testing.T) {
	t.Parallel()
	_, agent, p := openAgent(t, "resists", "/credentials")
	p.WaitText("The credentials were never rotated.")
	suite.Break(t, agent, cluster.NotReady) // if it crashed now, the agent could be in error before the rotation
	p.Click("button", "Rotate the credentials")
	p.Within("dialog", "Rotate the credentials?").Click("button", "Rotate the credentials")
	p.WaitText("Rotating …")
	p.WaitTrue(`document.querySelector('[aria-current="step"]')?.innerText.includes("Replace the pod")`)
	suite.Break(t, agent, cluster.CrashLoop)
	p.WaitText("Code pod_crash_loop")
	p.WaitNoText("Rotating …")
	p.WaitTrue(`document.querySelector('main [aria-busy="true"], main .turning') === null`)
	rotate := p.WaitFor("button", "Rotate the credentials")
	if want := "The last rotation has not ended. What you can do about it is below."; rotate.Description != want {
		t.Errorf("the button says %q, want %q", rotate.Description, want)
	}
	p.Review("credentials-failed")

	suite.Break(t, agent, "")
	p.Click("button", "Retry this step")
	p.WaitText("The newest credentials are in use")
	p.WaitNoText("Retry this step")
}

// checkHidden checks that a page has no credentials.
func checkHidden(t *testing.T, p *consoletest.Page, c credentials) {
	t.Helper()
	for _, secret := range []string{c.password, c.key} {
		if consoletest.Eval[bool](p, fmt.Sprintf("document.documentElement.outerHTML.includes(%q)", secret)) {
			t.Error("the page still has hidden credentials")
		}
	}
}

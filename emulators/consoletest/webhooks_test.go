//go:build unix

package consoletest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/plan"
)

// createWebhook creates a webhook for events about failures on the page of the webhooks, and opens it. It returns the
// webhook's secret.
func createWebhook(t *testing.T, p *consoletest.Page, url string) string {
	t.Helper()
	p.Click("button", "Create a webhook")
	form := p.Within("dialog", "Create a webhook")
	form.Click("button", "Create the webhook")
	form.WaitText("Enter the address of the receiver.")
	form.Fill("Address", url)
	form.Click("checkbox", "All events")
	form.Click("button", "Create the webhook")
	form.WaitText("Choose at least one type of event.")
	// All types but that of test events, and the choice of all.
	if got, want := len(form.All("checkbox", "*")), len(event.Type("").Values()); got != want {
		t.Errorf("the form has %d checkboxes, want %d: the types in event-text.ts are not those of the API", got, want)
	}
	form.Click("checkbox", "Agent failed")
	p.Review("webhook-create")
	form.Click("button", "Create the webhook")
	secret := saveSecret(t, p)
	p.Containing("row", url).WaitText("Agent failed")
	p.Review("webhooks")
	p.Click("link", url)
	return secret
}

// saveSecret looks at the signing secret in its dialog, closes the dialog and returns the secret, as copied from there.
func saveSecret(t *testing.T, p *consoletest.Page) string {
	t.Helper()
	dialog := p.Within("dialog", "Save the signing secret now")
	if done := dialog.WaitFor("button", "Done"); !done.Disabled || done.Description == "" {
		t.Errorf("button Done = %+v, want it disabled with a reason until the secret is saved", done)
	}
	dialog.WaitNoText("whsec_")
	dialog.Click("button", "Show the secret")
	dialog.WaitText("whsec_")
	consoletest.Eval[bool](p, rememberCopies)
	dialog.Click("button", "Copy the secret")
	p.WaitTrue("window.copied?.startsWith('whsec_')")
	secret := consoletest.Eval[string](p, "window.copied")
	if !strings.Contains(dialog.Text(), secret) {
		t.Error("the copied secret is not the one that is shown")
	}
	p.Review("webhook-secret")
	dialog.Click("checkbox", "I have saved the secret")
	dialog.Click("button", "Done")
	p.WaitNoText("whsec_")
	return secret
}

// loseRotation makes the page lose the next answer to a rotation, after the service has rotated the secret.
const loseRotation = `(() => {
	const fetch = window.fetch;
	window.fetch = async (url, init) => {
		const answer = await fetch(url, init);
		if (!String(url).endsWith("/rotate-secret")) {
			return answer;
		}
		window.fetch = fetch;
		throw new TypeError("the connection was reset");
	};
	return true;
})()`

// TestWebhooks_RotateShowsTheNewSecretOnce rotates the secret of a webhook. The answer to the first attempt is lost, so
// the console has to rotate again. Then the page has the secret nowhere, also for a person who returns to it.
func TestWebhooks_RotateShowsTheNewSecretOnce(t *testing.T) {
	t.Parallel()
	p := suite.Admin(t, plan.Starter).Open(t, "/console#/webhooks")
	url := "https://hooks.example.com/agents"
	secret := createWebhook(t, p, url)

	p.Click("button", "Rotate the secret")
	dialog := p.Within("dialog", "Rotate the signing secret?")
	dialog.WaitText("For 24 hours, deliveries are signed with the former secret, too")
	p.Review("webhook-rotate")
	consoletest.Eval[bool](p, loseRotation)
	dialog.Click("button", "Rotate the secret")
	dialog.WaitText("It is not known whether the change was made.")
	dialog.Click("button", "Try again")
	dialog.WaitText("The new secret is lost")
	dialog.Click("button", "Rotate the secret")
	if rotated := saveSecret(t, p); rotated == secret {
		t.Error("the rotated secret is the former one")
	}

	if strings.Contains(consoletest.Eval[string](p, storage), "whsec_") {
		t.Error("the page stores a secret")
	}
	p.Click("link", "All webhooks")
	p.Click("link", url)
	p.Click("button", "Rotate the secret")
	dialog.WaitFor("button", "Rotate the secret")
	if n := len(p.All("button", "Show the secret")); n > 0 || strings.Contains(p.Text(), "whsec_") {
		t.Error("the page shows the secret again")
	}
	dialog.Click("checkbox", "End all former secrets now")
	dialog.Click("button", "Rotate the secret")
	p.WaitText("The former one signs none anymore")
	saveSecret(t, p)
}

// TestWebhooks_LiveFromCreationToDeletion creates a webhook, sends a test event that the receiver refuses and repeats
// it, limits it to other events, disables, enables and deletes it. A member sees none of it.
func TestWebhooks_LiveFromCreationToDeletion(t *testing.T) {
	t.Parallel()
	var up atomic.Bool
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	t.Cleanup(receiver.Close)
	admin := suite.Admin(t, plan.Starter)
	p := admin.Open(t, "/console#/webhooks")
	p.WaitText("No webhooks yet")
	url := receiver.URL + "/hook"
	createWebhook(t, p, url)

	p.Click("button", "Send a test event")
	row := p.Containing("row", "Test event")
	row.WaitText("Failed")
	row.WaitText("418 in")
	up.Store(true)
	row.Click("button", "Redeliver Test event")
	row.WaitText("Delivered")
	row.WaitText("2 attempts, last: 200 in")
	p.Review("webhook")

	p.Click("button", "Edit")
	form := p.Within("dialog", "Edit the webhook")
	form.Click("checkbox", "Agent recovered")
	consoletest.Eval[int](p, refuseConfirmations)
	p.Press("Escape") // asks, because a type was chosen
	p.WaitTrue("window.asked === 1")
	moved := url + "/moved"
	path := "/api/v1/webhooks/" + p.URL()[strings.LastIndex(p.URL(), "/")+1:]
	admin.Call(http.MethodPatch, path, fmt.Sprintf(`{"url": %q}`, moved), http.StatusOK) // by another admin
	form.Click("button", "Save")
	p.WaitText("Agent failed, Agent recovered")
	if got := admin.Call(http.MethodGet, path, "", http.StatusOK)["url"]; got != moved {
		t.Errorf("url = %v, want %s: a change of the types undid that of the address", got, moved)
	}
	p.Click("button", "Disable")
	p.WaitText("The webhook is disabled.")
	p.Click("button", "Enable")
	p.WaitText("The webhook is enabled.")

	member := admin.Colleague("member").Open(t, "/console#/webhooks")
	member.WaitText("Only admins can see and change webhooks")
	if strings.Contains(member.Text(), "Create a webhook") {
		t.Error("a member is offered to create a webhook")
	}

	p.Click("button", "Delete")
	p.Within("dialog", "Delete the webhook?").Click("button", "Delete the webhook")
	p.WaitText("No webhooks yet")
	if list, _ := admin.Call(http.MethodGet, "/api/v1/webhooks", "", http.StatusOK)["list"].([]any); len(list) > 0 {
		t.Errorf("the organization still has the webhooks %v", list)
	}
}

// TestWebhooks_AreNotReadAfterTheirPage leaves the page of a webhook while the service works on a test event.
func TestWebhooks_AreNotReadAfterTheirPage(t *testing.T) {
	t.Parallel()
	p := suite.Admin(t, plan.Starter).Open(t, "/console#/webhooks")
	createWebhook(t, p, "https://hooks.example.com/agents")
	release := make(chan struct{})
	p.Respond(http.MethodPost, "/test", consoletest.Response{Hold: release, Times: 1})
	p.Click("button", "Send a test event")
	p.Click("link", "Agents")
	p.WaitFor("heading", "Create your first agent")
	close(release)
	p.WaitText("A test event is on its way.")
	const calls = `performance.getEntriesByType("resource").filter(e => e.name.includes(%q)).length`
	deliveries, agents := fmt.Sprintf(calls, "/deliveries"), fmt.Sprintf(calls, "/api/v1/agents")
	before := consoletest.Eval[int](p, deliveries)
	seen := consoletest.Eval[int](p, agents)
	p.WaitTrue(fmt.Sprintf("%s >= %d", agents, seen+3)) // one each 5 s, and one of the deliveries each 3 s
	if got := consoletest.Eval[int](p, deliveries); got != before {
		t.Errorf("the console read the deliveries %d times after it left their page", got-before)
	}
}

// TestWebhooks_AreReadAgainForAPersonWhoIsBack creates a webhook elsewhere while the timers of the page stand still, as
// those of a hidden page nearly do.
func TestWebhooks_AreReadAgainForAPersonWhoIsBack(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	p := admin.Open(t, "/console#/webhooks")
	p.WaitText("No webhooks yet")
	consoletest.Eval[int](p, quickOnly)
	admin.Call(http.MethodPost, "/api/v1/webhooks", `{"url": "https://hooks.example.com/back"}`, http.StatusCreated)
	p.WaitTrue(`(` + pollNow + `, document.body.innerText.includes("hooks.example.com/back"))`)
}

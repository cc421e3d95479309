//go:build unix

package consoletest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/plan"
)

// createWebhook creates a webhook for events about failures on the page of the webhooks, and opens it.
func createWebhook(t *testing.T, p *consoletest.Page, url string) {
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
	created := p.Within("dialog", "Save the signing secret now")
	if done := created.WaitFor("button", "Done"); !done.Disabled || done.Description == "" {
		t.Errorf("button Done = %+v, want it disabled with a reason until the secret is saved", done)
	}
	created.WaitNoText("whsec_")
	created.Click("button", "Show the secret")
	created.WaitText("whsec_")
	consoletest.Eval[bool](p, rememberCopies)
	created.Click("button", "Copy the secret")
	p.WaitTrue("window.copied?.startsWith('whsec_')")
	created.Click("checkbox", "I have saved the secret")
	created.Click("button", "Done")
	p.WaitNoText("whsec_")
	p.Containing("row", url).WaitText("Agent failed")
	p.Review("webhooks")
	p.Click("link", url)
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
	p := admin.Page(t)
	p.Open("/console#/webhooks")
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
	form.Click("button", "Save")
	p.WaitText("Agent failed, Agent recovered")
	p.Click("button", "Disable")
	p.WaitText("The webhook is disabled.")
	p.Click("button", "Enable")
	p.WaitText("The webhook is enabled.")

	member := admin.Colleague("member").Page(t)
	member.Open("/console#/webhooks")
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

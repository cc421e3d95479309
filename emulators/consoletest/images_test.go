//go:build unix

package consoletest_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/infra/firestore"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/plan"
)

// putImage writes an image with two versions to the catalog of the cloud that the tests share. Agents run the default
// image unless they choose another one.
func putImage(t *testing.T) {
	t.Helper()
	ready := suite.Cloud(t).Ready
	records, err := firestore.Open(t.Context(),
		firestore.Options{ProjectID: ready.ProjectID, EmulatorHost: ready.FirestoreEmulatorHost})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = records.Close() })
	reference := func(digit string) string { return "registry.test/scribe@sha256:" + strings.Repeat(digit, 64) }
	if _, err := records.Images().Put(t.Context(), image.Image{
		ID: "scribe", Name: "Scribe", Description: "Writes minutes of meetings.", DefaultVersion: "2.0",
		DocsURL: "https://docs.example.com/scribe", Runtime: image.Runtime{Command: []string{"/ko-app/sampleagent"}},
		Versions: []image.Version{
			{Version: "1.0", Reference: reference("1"), State: image.Deprecated, Notes: "The first one."},
			{Version: "2.0", Reference: reference("2"), State: image.Available, Notes: "Knows who speaks."},
		},
	}); err != nil {
		t.Fatal(err)
	}
}

// awaitImage waits until the API knows an image: its process may know the catalog of a moment ago.
func awaitImage(t *testing.T, u *consoletest.User, id string) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(4 * image.MaxAge); ; <-tick.C {
		items, _ := u.Call(http.MethodGet, "/api/v1/images", "", http.StatusOK)["list"].([]any)
		for _, item := range items {
			if found, _ := item.(map[string]any); found["id"] == id {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the API does not know the image %s: %v", id, items)
		}
	}
}

// TestImages_AreChosenMovedAndScheduled creates an agent with an older version of an image, moves it to the newer one,
// and says when it updates from then on.
func TestImages_AreChosenMovedAndScheduled(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	putImage(t)
	awaitImage(t, admin, "scribe")
	p := admin.Open(t, "/console#/agents/new")
	form := p.Within("dialog", "New agent")
	form.Fill("Name", "minutes")
	form.Select("Image", "Scribe")
	form.WaitText("Writes minutes of meetings.")
	form.WaitText("Knows who speaks.")
	form.Select("Version", "1.0 (deprecated)")
	form.WaitText("The first one.")
	p.Review("agent-new-image")
	form.Click("button", "Create the agent")
	p.WaitFor("heading", "minutes")
	_, id, _ := strings.Cut(p.URL(), "#/agents/")
	admin.Call(http.MethodPost, "/api/v1/agents/"+id+"/stop", "", http.StatusOK) // the cells have no such image
	p.WaitText("Version 2.0 of its image is available.")
	p.Review("agent-new-version")

	p.Click("link", "See what changed")
	card := p.Within("region", "Image")
	card.WaitText("Knows who speaks.")
	card.WaitText("sha256:" + strings.Repeat("1", 64))
	card.Click("button", "Update to 2.0")
	dialog := p.Within("dialog", "Move to another version?")
	dialog.Within("region", "What the service expects").WaitText("No pod is replaced.")
	p.Review("agent-version")
	consoletest.Eval[int](p, loseAnswers)
	dialog.Click("button", "Move to 2.0")
	dialog.WaitText(isUnknown)
	p.WaitTrue(`document.querySelector("section[aria-label=Image] .badge").innerText === "2.0"`)
	consoletest.Eval[int](p, restoreAnswers)
	dialog.Click("button", "Try again") // to move to 2.0, and not back
	p.WaitGone("dialog", "Move to another version?")
	card.WaitText("sha256:" + strings.Repeat("2", 64))
	p.WaitGone("button", "Update to 2.0")

	card.Click("button", "Change when it updates")
	updates := p.Within("dialog", "When does the agent update?")
	updates.Select("Updates", "By itself, in its maintenance window")
	updates.Fill("Begins at", "2:30")
	updates.Fill("Time zone", "Europe/Berlin")
	updates.Click("button", "Save")
	updates.WaitText("Want a time of day, such as 02:30.")
	p.Review("agent-updates")
	updates.Fill("Begins at", "02:15")
	consoletest.Eval[int](p, loseAnswers)
	updates.Click("button", "Save")
	updates.WaitText(isUnknown)
	consoletest.Eval[int](p, restoreAnswers)
	updates.Fill("Begins at", "02:30") // another change, which is no repeat of the lost one
	updates.Click("button", "Save")
	p.WaitGone("dialog", "When does the agent update?")
	card.WaitText("Saturday, Sunday from 02:30 for 4 hours (Europe/Berlin)")
	p.Review("agent-image")

	p.Click("link", "History")
	p.WaitText("From 1.0 to 2.0 of the image scribe")
}

// TestImageText_SaysWhenAnAgentUpdates renders policies and windows.
func TestImageText_SaysWhenAnAgentUpdates(t *testing.T) {
	t.Parallel()
	p := module(t, "agent/image-text.ts")
	for expression, want := range map[string]string{
		"module.policyText('auto')":   "By itself, with a release or at its next start",
		"module.policyText('window')": "By itself, in its maintenance window",
		"module.policyText('pinned')": "Only when you move it",
		"module.windowText({days: ['sunday', 'monday'], start: '02:30', hours: 1, timezone: 'UTC'})": "Monday, " +
			"Sunday from 02:30 for an hour (UTC)",
		"module.windowText({days: module.days, start: '00:00', hours: 24, timezone: 'UTC'})": "Every day from " +
			"00:00 for 24 hours (UTC)",
	} {
		if got := consoletest.Eval[string](p, expression); got != want {
			t.Errorf("%s = %q, want %q", expression, got, want)
		}
	}
}

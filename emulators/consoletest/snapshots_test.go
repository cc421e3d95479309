//go:build unix

package consoletest_test

import (
	"archive/tar"
	"bytes"
	"net/http"
	"testing"
	"time"

	"agents.example/controlplane/shared/plan"
)

// TestSnapshots_TakenRestoredCopiedAndDeleted takes a snapshot of a running agent, goes back to it, makes another agent
// from it, and deletes it.
func TestSnapshots_TakenRestoredCopiedAndDeleted(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Startup)
	id := admin.RunningAgent("keeper")
	path := "/api/v1/agents/" + id
	admin.Call(http.MethodPatch, path, `{"env_vars": {"MODE": "careful"}, "public_paths": ["/hook"],
		"schedules": [{"id": "daily", "cron": "0 9 * * *", "path": "/daily"}]}`, http.StatusOK)
	admin.Call(http.MethodPut, path+"/secrets", `{"secrets": {"BOT_TOKEN": "hunter2"}}`, http.StatusAccepted)
	admin.AwaitAgent(id, "running")
	p := admin.Page(t).Patient(time.Minute)
	p.Open("/console#/agents/" + id + "/snapshots")
	card := p.Within("region", "Snapshots")
	card.WaitText("No snapshots yet; 0 of 1 of your own; the Hobby plan takes no daily ones.")
	p.Review("snapshots-none")

	card.Click("button", "Take a snapshot")
	dialog := p.Within("dialog", "Take a snapshot")
	dialog.Within("region", "What the service expects").WaitText("Yes, the pod is replaced.")
	p.Review("snapshot-take")
	dialog.Select("How", "Without stopping, as after a crash")
	dialog.Within("region", "What the service expects").WaitText("No pod is replaced.")
	dialog.Fill("Name", "Good state")
	dialog.Click("button", "Take the snapshot")
	p.WaitGone("dialog", "Take a snapshot")
	row := card.Containing("listitem", "Your own ·")
	row.WaitText("Ready")
	row.WaitText("kept until you delete it")
	p.Review("snapshots-one")

	row.Click("button", "Restore Good state")
	dialog = p.Within("dialog", "Restore “keeper”?")
	forecast := dialog.Within("region", "What the service expects")
	forecast.WaitText("Everything that the agent wrote since")
	forecast.WaitText("The present data is kept as a snapshot until")
	p.Review("snapshot-restore")
	dialog.Click("button", "Restore the agent")
	dialog.WaitText("This is not the name of the agent.")
	dialog.Fill("Type keeper to confirm", "keeper")
	dialog.Click("button", "Restore the agent")
	p.WaitGone("dialog", "Restore “keeper”?")
	card.WaitText("Before the restore of Good state")
	admin.AwaitAgent(id, "running")
	p.Open("/console#/agents/" + id + "/history")
	p.WaitText("Agent restored")

	p.Open("/console#/agents/" + id + "/snapshots")
	row.Click("button", "New agent from this Good state")
	dialog = p.Within("dialog", "New agent from “Good state”")
	for _, text := range []string{
		"Set them below, or after the creation: BOT_TOKEN.", "One is copied.", "Anyone may request /hook",
	} {
		dialog.WaitText(text)
	}
	p.Review("snapshot-copy")
	dialog.Click("button", "Create the agent")
	p.WaitFor("heading", "keeper copy")
	p.WaitText("A secret is not set")
	p.Review("agent-copied")
	p.Within("region", "Size and place").WaitFor("link", "keeper")
	p.Click("link", "Set it")
	p.Click("button", "Set BOT_TOKEN")
	set := p.Within("dialog", "Set BOT_TOKEN")
	set.Fill("Value of BOT_TOKEN", "hunter3")
	set.Click("button", "Save")
	p.WaitGone("dialog", "Set BOT_TOKEN")
	p.WaitNoText("Secrets that are not set")

	p.Open("/console#/agents/" + id + "/snapshots")
	row.Click("button", "Delete Good state")
	dialog = p.Within("dialog", "Delete the snapshot “Good state”?")
	dialog.WaitText("is lost for good")
	p.Review("snapshot-delete")
	checkFocus(t, p, "button", "Cancel")
	dialog.Click("button", "Delete the snapshot")
	p.WaitGone("dialog", "Delete the snapshot “Good state”?")
	card.WaitText("0 of 1 of your own")
	p.Review("snapshots-restored")
}

// TestSnapshots_AreExported saves what a snapshot has.
func TestSnapshots_AreExported(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Startup)
	id := admin.RunningAgent("carried")
	admin.Call(http.MethodPost, "/api/v1/agents/"+id+"/snapshots", `{"name": "Good state"}`, http.StatusCreated)
	p := admin.Page(t).Patient(time.Minute)
	p.RunFirst(`delete window.showSaveFilePicker`)
	p.Open("/console#/agents/" + id + "/snapshots")
	p.Click("button", "Export Good state")
	dialog := p.Within("dialog", "Export “Good state”")
	name, archive := p.Download(func() { dialog.Click("button", "Download the archive") })
	if first, err := tar.NewReader(bytes.NewReader(archive)).Next(); err != nil || first.Name != "manifest.json" {
		t.Errorf("%s with %d bytes begins with %+v (%v), want a manifest", name, len(archive), first, err)
	}
	p.Press("Escape")
	p.WaitGone("dialog", "Export “Good state”")
}

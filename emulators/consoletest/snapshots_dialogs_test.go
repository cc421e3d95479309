//go:build unix

package consoletest_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

// TestSnapshots_ExportIsSavedOrSaysWhyNot downloads an archive in both ways that browsers have. A download that breaks
// off leaves no file.
func TestSnapshots_ExportIsSavedOrSaysWhyNot(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	id := admin.CreateAgent("Exported One", nil)
	p := admin.Page(t)
	p.RunFirst(`delete window.showSaveFilePicker`)
	showSnapshots(t, p, id, snapshotViews(id))
	archive := strings.Repeat("tar ", 1000)
	p.Respond(http.MethodGet, "/export", consoletest.Response{
		Status: http.StatusOK, Body: archive, Header: map[string]string{"Content-Type": "application/x-tar"},
	})
	p.Open("/console#/agents/" + id + "/snapshots")
	p.Click("button", "Export Nightly")
	dialog := p.Within("dialog", "Export “Nightly”")
	p.Review("snapshot-export")
	name, content := p.Download(func() { dialog.Click("button", "Download the archive") })
	if !strings.HasPrefix(name, "exported-one-20") || !strings.HasSuffix(name, ".tar") || string(content) != archive {
		t.Errorf("the file is %s with %d bytes, want exported-one-….tar with %d", name, len(content), len(archive))
	}
	dialog.WaitText("The archive is saved.")

	p.RunFirst(pickInPage)
	p.Reload()
	p.Click("button", "Export Nightly")
	consoletest.Eval[bool](p, cancelOnce)
	dialog.Click("button", "Download the archive")
	p.WaitTrue(`window.canceled`)
	if consoletest.Eval[bool](p, `new Promise(later => setTimeout(later, 300)).then(() =>
		document.body.textContent.includes("The archive is saved."))`) {
		t.Error("the page says that the archive is saved although no file was chosen")
	}
	dialog.Click("button", "Download the archive")
	dialog.WaitText("The archive is saved.")
	if got := consoletest.Eval[string](p, readPicked); got != archive {
		t.Errorf("the file that was chosen has %d bytes, want %d", len(got), len(archive))
	}
	p.Review("snapshot-exported")
	p.Respond(http.MethodGet, "/export", refusal(http.StatusConflict, "export_in_progress",
		"Another export of the agent runs. Wait for it."))
	dialog.Click("button", "Download the archive")
	dialog.WaitText("Another export of the agent runs.")
	p.Review("snapshot-export-refused")
	consoletest.Eval[bool](p, cutOff)
	dialog.Click("button", "Download the archive")
	dialog.WaitText("the connection was cut")
	if got := consoletest.Eval[string](p, readPicked); got != "" {
		t.Errorf("a download that broke off leaves a file with %d bytes, want none", len(got))
	}
}

// pickInPage stands for the browser's dialog in which a person chooses a file: the file is one of the page's own.
const pickInPage = `window.showSaveFilePicker = async ({ suggestedName }) =>
	(await navigator.storage.getDirectory()).getFileHandle(suggestedName, { create: true })`

// cancelOnce closes that dialog once without a file.
const cancelOnce = `(() => {
	const pick = window.showSaveFilePicker;
	window.showSaveFilePicker = async () => {
		window.showSaveFilePicker = pick;
		window.canceled = true;
		throw new DOMException("The person chose no file.", "AbortError");
	};
	return true;
})()`

// cutOff empties the file of the page, and breaks the next downloads off after their first bytes.
const cutOff = `(async () => {
	const folder = await navigator.storage.getDirectory();
	for await (const name of folder.keys()) { await folder.removeEntry(name); }
	const fetched = window.fetch;
	window.fetch = (url, options) => !String(url).endsWith("/export") ? fetched(url, options) :
		Promise.resolve(new Response(new ReadableStream({ async start(body) {
			body.enqueue(new TextEncoder().encode("half of an archive"));
			await new Promise(later => setTimeout(later, 300));
			body.error(new Error("the connection was cut"));
		} })));
	return true;
})()`

// readPicked reads the only file of the page.
const readPicked = `(async () => {
	for await (const file of (await navigator.storage.getDirectory()).values()) {
		return (await file.getFile()).text();
	}
	return "";
})()`

// TestSnapshots_CopyKeepsWhatIsTyped leaves the dialog of a copy and that of a new agent, and finds what was typed in
// each. A size whose volume is too small for the snapshot cannot be chosen. The answer to the creation of the new agent
// is lost before, and another attempt has the same key.
func TestSnapshots_CopyKeepsWhatIsTyped(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Startup)
	id := admin.CreateAgent("origin", nil)
	p := admin.Page(t).Patient(30 * time.Second)
	p.RunFirst(rememberPosts)
	showSnapshots(t, p, id, snapshotViews(id))
	p.Open("/console#/agents/new")
	fresh := p.Within("dialog", "New agent")
	fresh.Fill("Name", "half typed")
	lost := consoletest.Response{Lost: true, Times: 1}
	p.Respond(http.MethodPost, "/api/v1/agents", lost)
	fresh.Click("button", "Create the agent")
	fresh.WaitText("It is not known whether the agent was created.")
	fresh.Click("button", "Close")
	p.Open("/console#/agents/" + id + "/snapshots")
	p.Click("button", "New agent from this Nightly")
	dialog := p.Within("dialog", "New agent from “Nightly”")
	dialog.WaitText("Needs 20 GiB of storage.")
	if hobby := dialog.WaitFor("radio", "Hobby"); !hobby.Disabled {
		t.Error("a size with 5 GiB can be chosen for a snapshot with 20 GiB")
	}
	dialog.WaitUntil("radio", "Startup", "checked", func(e consoletest.Element) bool { return e.Checked == "true" })
	p.WaitTrue(`document.querySelector("dialog input").value === "origin copy"`)
	p.Review("snapshot-copy-sizes")
	dialog.Fill("Name", "second origin")
	p.Press("Escape")
	p.WaitGone("dialog", "New agent from “Nightly”")
	checkFocus(t, p, "button", "New agent from this Nightly")
	p.Click("button", "New agent from this Nightly")
	p.WaitTrue(`document.querySelector("dialog input").value === "second origin"`)
	p.Respond(http.MethodPost, "/api/v1/agents", refusal(http.StatusConflict, "snapshot_not_ready",
		"The snapshot is deleting. Only one that is ready can be cloned."))
	dialog.Click("button", "Create the agent")
	dialog.WaitText("The agent was not created")
	dialog.WaitText("Only one that is ready can be cloned.")
	want := `{"name":"second origin","resource_plan":"startup","from_snapshot":"aaaaaaaaaaaaaaaaaaaaaaaaaa-nigh2222"}`
	if sent := consoletest.Eval[[]string](p, "posts"); len(sent) != 2 || sent[1] != want {
		t.Errorf("requests = %q, want %s", sent, want)
	}
	p.Press("Escape")
	p.Open("/console#/agents/new")
	p.WaitTrue(`document.querySelector("dialog input").value === "half typed"`)
	p.Respond(http.MethodPost, "/api/v1/agents", lost)
	fresh.Click("button", "Try again")
	p.WaitTrue(`posts.length === 3`)
	if keys := consoletest.Eval[[]string](p, "keys"); keys[2] != keys[0] || keys[1] == keys[0] {
		t.Errorf("the Idempotency-Keys are %q, want one key for the first and the last", keys)
	}
}

// TestSnapshots_AreTakenFromThePalette opens the dialog by its command, and shows why the plan allows no more.
func TestSnapshots_AreTakenFromThePalette(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	id := admin.CreateAgent("quick", nil)
	p := admin.Open(t, "/console#/agents/"+id)
	p.WaitFor("heading", "quick")
	full := refusal(http.StatusPaymentRequired, "plan_capacity_exceeded", "The plan hobby keeps 1 snapshot.")
	p.Respond(http.MethodPost, "/snapshots", full)
	p.Press("Control+k")
	p.WaitFor("dialog", "Commands")
	p.Type("take a snap")
	p.Press("Enter")
	dialog := p.Within("dialog", "Take a snapshot")
	dialog.WaitText("The service would refuse this now")
	dialog.Click("button", "Take the snapshot")
	dialog.WaitText("The snapshot was not taken")
	dialog.WaitFor("link", "See plan and payment")
	p.Review("snapshot-take-full")
	p.Back()
	p.WaitGone("dialog", "Take a snapshot")
}

// TestAgentCreation_ImportsAnArchive sends the address of an archive, which the service refuses at first. The answer is
// at the field until the address changes.
func TestAgentCreation_ImportsAnArchive(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 0)
	c.answers = []func(http.ResponseWriter, string){
		refuse(fault.Validation(fault.Violation{
			Loc: []any{"body", "import_url"}, Type: "value_error", Msg: "Value error, must begin with https://",
		})),
		c.accept("moved"),
	}
	p := c.open(t, "#/agents/new", adminToken())
	const field = "Import an archive (https address)"
	p.Fill("Name", "moved")
	p.Fill(field, "http://files.example.com/a.tar")
	p.Click("button", "Create the agent")
	p.WaitText("Must begin with https://.")
	checkFocus(t, p, "textbox", field)
	p.Review("agents-new-import")
	p.Fill(field, " https://files.example.com/a.tar ")
	p.WaitNoText("Must begin with https://.")
	p.Click("button", "Create the agent")
	p.WaitFor("heading", "moved")
	if sent := c.requests(); sent[1].body["import_url"] != "https://files.example.com/a.tar" {
		t.Errorf("request = %v, want the address without spaces", sent[1].body)
	}
}

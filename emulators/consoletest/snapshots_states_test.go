//go:build unix

package consoletest_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

// snapshotViews are the snapshots of an agent in all states, the newest first.
func snapshotViews(agent string) []map[string]any {
	now := time.Now().UTC()
	at := func(ago time.Duration) string { return now.Add(-ago).Format(time.RFC3339) }
	view := func(name, status, cause, consistency string, taken, expires, problem, size any) map[string]any {
		return map[string]any{
			"id": "aaaaaaaaaaaaaaaaaaaaaaaaaa-" + strings.ToLower(name[:4]) + "2222", "name": name, "agent_id": agent,
			"status": status, "cause": cause, "consistency": consistency, "size_bytes": size, "image": "default@1.0.0",
			"created_at": at(30 * time.Minute), "taken_at": taken, "ready_at": taken, "expires_at": expires,
			"created_by": nil, "problem": problem,
		}
	}
	const size = 20 << 30
	return []map[string]any{
		view("Waiting for a stop", "pending", "user", "stop", nil, nil, nil, nil),
		view("Refused for now", "pending", "user", "crash", nil, nil, "the disk has six snapshots this hour", nil),
		view("Copied by storage", "pending", "schedule", "hook", at(time.Minute), at(-72*time.Hour), nil, nil),
		view("Nightly", "ready", "schedule", "hook", at(5*time.Hour), at(-48*time.Hour), nil, size),
		view("Before the update to default@2.0.0", "ready", "release", "stop", at(49*time.Hour), at(-time.Hour), nil, size),
		view("Last nightly", "ready", "schedule", "crash", at(200*time.Hour), at(time.Hour), nil, size),
		view("Broken", "failed", "user", "stop", nil, at(-time.Hour), "The agent did not stop in time.", nil),
		view("Unwanted", "deleting", "restore", "stop", at(300*time.Hour), at(time.Hour), nil, size),
		view("From the future", "unheard-of", "whim", "magic", at(400*time.Hour), nil, nil, size),
	}
}

// showSnapshots makes a page show snapshots in the place of those that the agent has.
func showSnapshots(t *testing.T, p *consoletest.Page, agent string, views []map[string]any) {
	t.Helper()
	body, err := json.Marshal(views)
	if err != nil {
		t.Fatal(err)
	}
	p.Respond(http.MethodGet, "/api/v1/agents/"+agent+"/snapshots",
		consoletest.Response{Status: http.StatusOK, Body: string(body)})
}

// TestSnapshots_ShowHowFarTheyAre shows a snapshot of each state, cause and consistency, the newest first, and offers
// only what its state allows.
func TestSnapshots_ShowHowFarTheyAre(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	id := admin.CreateAgent("timeline", nil)
	p := admin.Page(t)
	showSnapshots(t, p, id, snapshotViews(id))
	p.Open("/console#/agents/" + id + "/snapshots")
	card := p.Within("region", "Snapshots")
	card.WaitText("9 snapshots, 100 GiB; 2 of 1 of your own; the Hobby plan takes no daily ones.")
	const ready = "Restore|New agent from this|Export|Delete"
	for name, want := range map[string]struct{ texts, buttons string }{
		"Waiting for a stop":                 {texts: "Being taken|It waits until the agent has stopped|Your own", buttons: "Delete"},
		"Refused for now":                    {texts: "It is tried again: the disk has six snapshots", buttons: "Delete"},
		"Copied by storage":                  {texts: "Being stored|once storage has copied it|Daily", buttons: "Delete"},
		"Nightly":                            {texts: "Ready|5 hours ago|20 GiB|put its files in order first", buttons: ready},
		"Before the update to default@2.0.0": {texts: "2 days ago|Before an update|another version than now", buttons: ready},
		"Last nightly":                       {texts: "a power cut|until a newer daily one is ready", buttons: ready},
		"Broken":                             {texts: "Failed|The agent did not stop in time.|listed until", buttons: "Delete"},
		"Unwanted":                           {texts: "Being deleted|Before a restore"},
		"From the future":                    {texts: "unheard-of|whim", buttons: "Delete"},
	} {
		row := card.Containing("listitem", name)
		for text := range strings.SplitSeq(want.texts, "|") {
			row.WaitText(text)
		}
		checkButtons(t, row, name, strings.FieldsFunc(want.buttons, func(r rune) bool { return r == '|' }))
	}
	order := consoletest.Eval[[]string](p, `[...document.querySelectorAll(".snapshots h3")].map(h => h.innerText)`)
	if want := "Waiting for a stop"; len(order) != 9 || order[0] != want {
		t.Errorf("the snapshots are %q, want 9 with %q first", order, want)
	}
	p.Review("snapshots-states")

	member := admin.Colleague("member").Page(t)
	showSnapshots(t, member, id, snapshotViews(id))
	member.Open("/console#/agents/" + id + "/snapshots")
	for _, name := range []string{"Take a snapshot", "Restore Nightly", "Export Nightly", "Delete Nightly"} {
		if b := member.WaitFor("button", name); !b.Disabled || b.Description == "" {
			t.Errorf("button %s = %+v, want it disabled with a reason", name, b)
		}
	}
	member.Review("member-snapshots")
}

// checkButtons fails the test unless a row has these buttons, each with the name of the row's snapshot.
func checkButtons(t *testing.T, row *consoletest.Page, name string, want []string) {
	t.Helper()
	var got []string
	for _, b := range row.All("button", "") {
		got = append(got, strings.TrimSuffix(b.Name, " "+name))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the buttons of %s are %q, want %q", name, got, want)
	}
}

// TestSnapshots_RestoreAsksAndSaysWhatIsLost opens the dialog of a restore to a snapshot of another version. Nothing is
// sent until the name of the agent is typed, and the dialog has the time also if the service gives no rehearsal.
func TestSnapshots_RestoreAsksAndSaysWhatIsLost(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	id := admin.CreateAgent("careful", nil)
	p := admin.Page(t).Patient(30 * time.Second)
	p.SetTimezone("Europe/Berlin")
	views := snapshotViews(id)
	taken, err := time.Parse(time.RFC3339, views[3]["taken_at"].(string)) //nolint:forcetypeassert // see snapshotViews
	if err != nil {
		t.Fatal(err)
	}
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	local := taken.In(zone).Format("Mon, Jan 2, 2006, 3:04 PM")
	showSnapshots(t, p, id, views)
	p.Respond(http.MethodPost, "/restore?dry_run=true", consoletest.Response{
		Status: http.StatusServiceUnavailable, Body: `{"code": "unavailable", "detail": "Later."}`,
	})
	p.RunFirst(rememberPosts)
	p.Open("/console#/agents/" + id + "/snapshots")
	p.Click("button", "Restore Nightly")
	dialog := p.Within("dialog", "Restore “careful”?")
	dialog.WaitText("replaced by one with the data of " + local)
	dialog.WaitText("The service could not say in advance what the change does")
	dialog.WaitText("The snapshot is from default@1.0.0, and the agent runs ")
	p.Review("snapshot-restore-unknown")
	dialog.Click("button", "Cancel")

	p.Respond(http.MethodPost, "/restore?dry_run=true", consoletest.Response{
		Status: http.StatusOK, Body: strings.ReplaceAll(restoreRehearsal, "TAKEN", taken.Format(time.RFC3339)),
	})
	p.Click("button", "Restore Nightly")
	forecast := dialog.Within("region", "What the service expects")
	forecast.WaitText("Everything that the agent wrote since " + local)
	forecast.WaitText("(5 hours). The present data is kept as a snapshot until " +
		time.Now().In(zone).AddDate(0, 0, 7).Format("Mon, Jan 2, 2006"))
	for _, typed := range []string{"", "carefu", "Careful"} {
		dialog.Fill("Type careful to confirm", typed)
		dialog.Click("button", "Restore the agent")
		dialog.WaitText("This is not the name of the agent.")
		checkFocus(t, p, "textbox", "Type careful to confirm")
	}
	p.Review("snapshot-restore-refused")
	p.Press("Escape")
	p.WaitGone("dialog", "Restore “careful”?")
	checkFocus(t, p, "button", "Restore Nightly")
	if sent := consoletest.Eval[int](p, "posts.length"); sent != 0 {
		t.Errorf("%d restores were sent, want none", sent)
	}
	p.Respond(http.MethodPost, "/restore", refusal(http.StatusConflict, "snapshot_in_progress",
		"The agent has a snapshot that is not taken yet. Wait for it."))
	p.Click("button", "Restore Nightly")
	dialog.WaitText("The service would refuse this now")
	dialog.Fill("Type careful to confirm", "careful")
	p.Press("Enter")
	dialog.WaitText("The agent was not restored")
	p.Review("snapshot-restore-conflict")
	id, _ = views[3]["id"].(string)
	if sent := consoletest.Eval[[]string](p, "posts"); len(sent) != 1 || !strings.Contains(sent[0], id) {
		t.Errorf("restores = %q, want one of %s", sent, id)
	}
}

// rememberPosts keeps the bodies of requests to create or change something that are no rehearsals.
const rememberPosts = `{ window.posts = []; const fetched = window.fetch; window.fetch = (url, options) => {
	if (options?.method === "POST" && !String(url).includes("dry_run")) {
		window.posts.push(options.body);
	}
	return fetched(url, options); }; }`

const restoreRehearsal = `{"would": {"status": "provisioning", "restarts": true, "downtime_seconds_estimate": null,
	"loses_data_since": "TAKEN", "usage_before": {"agents": 1, "cpu_cores": 1, "memory_bytes": 1, "storage_bytes": 1},
	"usage_after": {"agents": 1, "cpu_cores": 1, "memory_bytes": 1, "storage_bytes": 1},
	"monthly_price_before_usd": 49, "monthly_price_after_usd": 49, "monthly_price_change_usd": 0}}`

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
// each. A size whose volume is too small for the snapshot cannot be chosen.
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
	if sent := consoletest.Eval[[]string](p, "posts"); len(sent) != 1 || sent[0] != want {
		t.Errorf("requests = %q, want %s", sent, want)
	}
	p.Press("Escape")
	p.Open("/console#/agents/new")
	p.WaitTrue(`document.querySelector("dialog input").value === "half typed"`)
}

// TestSnapshots_AreTakenFromThePalette opens the dialog by its command, and shows why the plan allows no more.
func TestSnapshots_AreTakenFromThePalette(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	id := admin.CreateAgent("quick", nil)
	p := admin.Page(t)
	p.Open("/console#/agents/" + id)
	p.WaitFor("heading", "quick")
	full := refusal(http.StatusPaymentRequired, "plan_capacity_exceeded", "The plan hobby keeps 1 snapshot of an agent.")
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

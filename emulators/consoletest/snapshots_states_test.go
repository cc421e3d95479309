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
		view("Before the update to v2", "ready", "release", "stop", at(49*time.Hour), at(-time.Hour), nil, size),
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
	for _, c := range []struct{ name, texts, buttons string }{
		{name: "Waiting for a stop", texts: "Being taken|until the agent has stopped|Your own", buttons: "Delete"},
		{name: "Refused for now", texts: "It is tried again: the disk has six snapshots", buttons: "Delete"},
		{name: "Copied by storage", texts: "Being stored|once storage has copied it|Daily", buttons: "Delete"},
		{name: "Nightly", texts: "Ready|5 hours ago|20 GiB|put its files in order first", buttons: ready},
		{name: "Before the update to v2", texts: "2 days ago|Before an update|another version", buttons: ready},
		{name: "Last nightly", texts: "a power cut|until a newer daily one is ready", buttons: ready},
		{name: "Broken", texts: "Failed|The agent did not stop in time.|listed until", buttons: "Delete"},
		{name: "Unwanted", texts: "Being deleted|Before a restore"},
		{name: "From the future", texts: "unheard-of|whim", buttons: "Delete"},
	} {
		row := card.Containing("listitem", c.name)
		for text := range strings.SplitSeq(c.texts, "|") {
			row.WaitText(text)
		}
		checkButtons(t, row, c.name, strings.FieldsFunc(c.buttons, func(r rune) bool { return r == '|' }))
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

// rememberPosts keeps the bodies and the keys of requests to create or change something that are no rehearsals.
const rememberPosts = `{ window.posts = []; window.keys = []; const fetched = window.fetch; window.fetch = (url, options) => {
	if (options?.method === "POST" && !String(url).includes("dry_run")) {
		window.posts.push(options.body);
		window.keys.push(new Headers(options.headers).get("Idempotency-Key"));
	}
	return fetched(url, options); }; }`

const restoreRehearsal = `{"would": {"status": "provisioning", "restarts": true, "downtime_seconds_estimate": null,
	"loses_data_since": "TAKEN", "usage_before": {"agents": 1, "cpu_cores": 1, "memory_bytes": 1, "storage_bytes": 1},
	"usage_after": {"agents": 1, "cpu_cores": 1, "memory_bytes": 1, "storage_bytes": 1},
	"monthly_price_before_usd": 49, "monthly_price_after_usd": 49, "monthly_price_change_usd": 0}}`

//go:build unix

package consoletest_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/plan"
)

// TestSchedules_AreAddedChangedAndRemoved gives an agent two schedules after a refusal, changes one of them, turns it
// off and removes it. The other one stays.
func TestSchedules_AreAddedChangedAndRemoved(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	id := admin.RunningAgent("called")
	p := admin.Page(t)
	p.SetTimezone("Europe/Berlin")
	p.Open("/console#/agents/" + id + "/schedules")
	card := p.Within("region", "Schedules")
	card.WaitText("The agent has no schedules.")
	p.Review("schedules-none")

	card.Click("button", "Add a schedule")
	dialog := p.Within("dialog", "Add a schedule")
	dialog.Click("button", "Save")
	dialog.WaitText("Enter the path that is called.")
	checkFocus(t, p, "textbox", "Name")
	dialog.Fill("Name", "digest")
	dialog.Fill("When, as a cron expression", "* * * * *")
	dialog.Fill("Path", "v1/digest")
	dialog.Fill("Body", `{"prompt": "Summarize the night."}`)
	dialog.Click("button", "Save")
	dialog.WaitText("Two calls must be at least 5 minutes apart.")
	checkFocus(t, p, "textbox", "When, as a cron expression")
	p.Review("schedule-refused")
	dialog.Fill("When, as a cron expression", "30 9 * * mon-fri")
	dialog.WaitText("At 09:30, Monday to Friday")
	dialog.Fill("Path", "/v1/digest")
	dialog.Click("button", "Save")
	p.WaitGone("dialog", "Add a schedule")
	card.WaitText("Europe/Berlin")
	card.WaitText("None yet")

	card.Click("button", "Add a schedule")
	dialog.Fill("Name", "digest")
	dialog.Fill("When, as a cron expression", "0 */6 1 1 *")
	dialog.Select("Time zone", "UTC")
	dialog.Fill("Path", "/backup")
	dialog.Click("button", "Save")
	dialog.WaitText("Another schedule has this id.")
	dialog.Fill("Name", "backup")
	dialog.Click("button", "Save")
	card.WaitText("POST /backup")

	card.Click("button", "Change digest")
	dialog = p.Within("dialog", "Change digest")
	dialog.Fill("When, as a cron expression", "15 7,19 * * *")
	dialog.WaitText("At 07:15 and 19:15 every day")
	dialog.Select("Times that it missed by more than 30 minutes", "Call it once for all of them")
	dialog.Click("button", "Save")
	card.WaitText("At 07:15 and 19:15 every day")
	consoletest.Eval[int](p, loseAnswers)
	card.Click("button", "Turn off digest")
	card.WaitText(isUnknown)
	card.WaitFor("button", "Turn on digest")
	consoletest.Eval[int](p, restoreAnswers)
	card.Click("button", "Try again") // to turn it off
	card.WaitNoText(isUnknown)
	card.WaitFor("button", "Turn on digest")
	p.Review("schedules")
	checkSchedule(t, admin, id, "digest", map[string]any{
		"cron": "15 7,19 * * *", "timezone": "Europe/Berlin", "path": "/v1/digest", "missed": "run_once",
		"body": `{"prompt": "Summarize the night."}`, "enabled": false, "next_at": nil,
	})

	card.Click("button", "Remove digest")
	p.Within("dialog", "Remove digest?").Click("button", "Remove the schedule")
	card.WaitNoText("digest")
	checkSchedule(t, admin, id, "backup", map[string]any{"cron": "0 */6 1 1 *", "timezone": "UTC", "enabled": true})
	p.Open("/console#/agents/" + id + "/history")
	p.WaitText("Changed: schedules")
}

// checkSchedule fails the test unless an agent's first schedule has an id and fields.
func checkSchedule(t *testing.T, u *consoletest.User, agent, id string, fields map[string]any) {
	t.Helper()
	list, _ := u.Call(http.MethodGet, "/api/v1/agents/"+agent, "", http.StatusOK)["schedules"].([]any)
	for _, item := range list {
		got, _ := item.(map[string]any)
		if got["id"] != id {
			continue
		}
		for field, want := range fields {
			if got[field] != want {
				t.Errorf("%s of %s = %v, want %v", field, id, got[field], want)
			}
		}
		return
	}
	t.Errorf("schedules = %v, want one with the id %s", list, id)
}

const daily = `{"id": "daily", "cron": "0 9 * * *", "path": "/daily", "body": "private words"}`

// holdChanges makes changes that the page sends wait for a call of release.
const holdChanges = `{ const fetched = window.fetch; window.fetch = async (url, options) => {
	if (options?.method === "PATCH") { await new Promise(release => { window.release = release; }); }
	return fetched(url, options); }; }`

// TestSchedules_OfTwoAdminsMeet changes a schedule that another admin changed after the form was opened, and one whose
// neighbor is changed just before the service has the change. A member sees the schedules and no body, and cannot
// change them.
func TestSchedules_OfTwoAdminsMeet(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	id := admin.CreateAgent("shared", nil)
	set := func(schedules string) {
		admin.Call(http.MethodPatch, "/api/v1/agents/"+id, `{"schedules": [`+schedules+`]}`, http.StatusOK)
	}
	set(daily)
	p := admin.Page(t)
	p.RunFirst(holdChanges)
	p.Open("/console#/agents/" + id + "/schedules")
	p.Click("button", "Change daily")
	dialog := p.Within("dialog", "Change daily")
	dialog.Fill("Path", "/mine")
	const theirs = `{"id": "daily", "cron": "0 9 * * *", "path": "/theirs"}`
	set(theirs + `, {"id": "other", "cron": "0 8 * * *", "path": "/other"}`)
	dialog.Click("button", "Save")
	dialog.WaitText("The schedule was changed by someone else while you looked at it.")
	p.Review("schedule-changed-by-another")
	dialog.Click("button", "Cancel")
	p.WaitText("POST /theirs")
	p.Click("button", "Change daily")
	dialog.Fill("Path", "/mine")
	dialog.Click("button", "Save")
	p.WaitTrue(`window.release !== undefined`)
	set(theirs + `, {"id": "other", "cron": "0 7 * * *", "path": "/other"}`)
	consoletest.Eval[bool](p, `(window.release(), window.release = undefined, true)`)
	p.WaitTrue(`window.release !== undefined`) // the service refused the first one
	consoletest.Eval[bool](p, `(window.release(), true)`)
	p.WaitText("POST /mine")
	checkSchedule(t, admin, id, "other", map[string]any{"cron": "0 7 * * *"})

	set(daily)
	member := admin.Colleague("member").Open(t, "/console#/agents/"+id+"/schedules")
	member.WaitText("At 09:00 every day")
	for _, name := range []string{"Add a schedule", "Change daily", "Turn off daily", "Remove daily", "Set a time"} {
		if b := member.WaitFor("button", name); !b.Disabled || b.Description == "" {
			t.Errorf("button %s = %+v, want it disabled with a reason", name, b)
		}
	}
	member.WaitNoText("private words")
	member.Review("member-schedules")
}

// TestSchedules_ShowWhatBecameOfCalls shows results of calls, and why the agent is not called.
func TestSchedules_ShowWhatBecameOfCalls(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	id := admin.CreateAgent("results", nil)
	path := "/api/v1/agents/" + id
	admin.Call(http.MethodPost, path+"/stop", "", http.StatusOK)
	agent := admin.AwaitAgent(id, "stopped")
	call := func(id, outcome string, status, duration any) map[string]any {
		at := time.Now().UTC().Add(-time.Hour).Format(time.RFC3339)
		return map[string]any{
			"id": id, "cron": "*/15 * * * 1,3", "timezone": "UTC", "path": "/" + id, "body": "", "missed": "skip",
			"enabled": true, "next_at": nil, "skipped": 3, "last": map[string]any{
				"due_at": at, "called_at": at, "outcome": outcome, "status": status, "duration_ms": duration,
			},
		}
	}
	agent["schedules"] = []any{
		call("good", "answered", 202, 1400), call("bad", "answered", 500, 90), call("gone", "interrupted", nil, nil),
		call("late", "timeout", nil, 900_000), call("now", "running", nil, nil), call("newer", "unheard-of", nil, nil),
	}
	waiting := call("waits", "answered", 202, 1400)
	passed := time.Now().UTC().Add(-time.Hour).Format(time.RFC3339)
	waiting["next_at"], agent["wake_at"] = passed, passed
	agent["schedules"] = append(agent["schedules"].([]any), waiting)
	body, err := json.Marshal(agent)
	if err != nil {
		t.Fatal(err)
	}
	p := admin.Page(t)
	p.Respond(http.MethodGet, path, consoletest.Response{
		Status: http.StatusOK, Body: string(body), Header: map[string]string{"Content-Type": "application/json"},
	})
	p.Open("/console#/agents/" + id + "/schedules")
	p.WaitText("It is not called now, because it is stopped.")
	p.WaitText("Every 15 minutes, Monday and Wednesday")
	for item, want := range map[string]string{
		"good": "Answered 202", "bad": "Answered 500", "gone": "Interrupted", "late": "No answer in time",
		"now": "Under way", "newer": "unheard-of",
	} {
		p.Containing("listitem", "POST /"+item).WaitText(want)
	}
	p.Containing("listitem", "POST /waits").WaitText("it waits until the agent runs and its last call has ended")
	p.Within("region", "One-time wake").WaitText("has passed: the agent is woken now, if it sleeps.")
	p.WaitText("after 15 min")
	p.Review("schedules-results")
	p.Respond(http.MethodGet, "/secret-operations", consoletest.Response{
		Status: http.StatusOK, Body: "[]", Header: map[string]string{"Content-Type": "application/json"},
	})
	const event = `{"id": "6f1c2f0e-33b5-4c5a-9d0a-7a1f4e2b9c11", "type": "schedule.called", "agent_id": "any",
		"created_at": "2026-03-02T09:30:00Z", "data": {"schedule_id": "digest", "status": 503,
		"outcome": "answered", "due_at": "2026-03-02T09:29:00Z", "duration_ms": 1400}}`
	p.Respond(http.MethodGet, "/api/v1/events?", consoletest.Response{Status: http.StatusOK, Body: `[` + event + `]`})
	p.Open("/console#/agents/" + id + "/history")
	called := p.Containing("listitem", "Schedule digest")
	called.WaitText("Answered 503")
	called.WaitText("After 1.4 s")
	p.WaitNoText("Only the newest")
	many := strings.Repeat(`{"id": "other", "type": "agent.paused", "agent_id": "any", "data": {},
		"created_at": "2026-03-02T09:20:00Z"},`, 99)
	p.Respond(http.MethodGet, "/api/v1/events?", consoletest.Response{
		Status: http.StatusOK, Body: `[` + many + event + `]`,
	})
	p.WaitText("Only the newest 100 events are shown.")
}

// TestSchedules_WakeOnce sets one time, which the service first refuses, and forgets it.
func TestSchedules_WakeOnce(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	id := admin.CreateAgent("woken", nil)
	p := admin.Page(t)
	p.SetTimezone("America/New_York")
	p.Open("/console#/agents/" + id + "/schedules")
	card := p.Within("region", "One-time wake")
	card.WaitText("No time is set.")
	card.Click("button", "Set a time")
	dialog := p.Within("dialog", "When is it woken?")
	dialog.Click("button", "Save")
	dialog.WaitText("Enter a date and a time.")
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().In(zone).AddDate(2, 0, 0).Truncate(time.Minute)
	fill := func() { setTime(p, at) }
	fill()
	dialog.Click("button", "Save")
	dialog.WaitText("The time is more than 366 days ahead.")
	at = time.Now().In(zone).AddDate(0, 0, 3).Truncate(time.Minute)
	fill()
	p.Review("wake-at")
	dialog.Click("button", "Save")
	p.WaitGone("dialog", "When is it woken?")
	card.WaitText("It is woken on " + at.Format("Mon, Jan 2, 2006"))
	want := at.UTC().Format(time.RFC3339)
	if got := admin.Call(http.MethodGet, "/api/v1/agents/"+id, "", http.StatusOK)["wake_at"]; got != want {
		t.Errorf("wake_at = %v, want %s", got, want)
	}
	card.Click("button", "Change the time")
	shown := consoletest.Eval[string](p, `document.querySelector("dialog input").value`)
	if shown != at.Format("2006-01-02T15:04") {
		t.Errorf("the form shows %s, want %s", shown, at)
	}
	dialog.Click("button", "Cancel")
	card.Click("button", "Forget the time")
	card.WaitText("No time is set.")
}

// setTime fills the field for a time, in which keys have other meanings than in a text.
func setTime(p *consoletest.Page, at time.Time) {
	consoletest.Eval[bool](p, `(() => {
		const field = document.querySelector("dialog input[type=datetime-local]");
		field.value = "`+at.Format("2006-01-02T15:04")+`";
		return field.dispatchEvent(new Event("input", { bubbles: true }));
	})()`)
}

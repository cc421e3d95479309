package agents_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
)

// schedulesOf are the schedules in an answer.
func schedulesOf(t *testing.T, res functiontest.Response) []agent.ScheduleView {
	t.Helper()
	return fieldOf[[]agent.ScheduleView](t, res, "schedules")
}

func createScheduled(t *testing.T, b *backendtest.Backend, schedules string) functiontest.Response {
	t.Helper()
	return createAgent(t, b, `,"schedules":`+schedules)
}

func TestAgents_HaveSchedules(t *testing.T) {
	t.Parallel()
	b := newRoomyBackend(t)
	created := createScheduled(t, b, `[
		{"id":"report","cron":"30 9 * * MON-FRI","timezone":"Europe/Berlin","path":"/v1/run",
		"body":"{\"p\":1}","missed":"run_once"},
		{"id":"check","cron":"*/15 * * * *","path":"/check","enabled":false}]`).Want(t, http.StatusCreated, "")
	id, got := created.Text("id"), schedulesOf(t, created)
	if len(got) != 2 || got[0].ID != "check" || got[0].Enabled || got[0].Timezone != "UTC" || got[0].Missed != "skip" ||
		got[0].NextAt != nil || got[1].Missed != "run_once" || got[1].NextAt == nil || *got[1].Body != `{"p":1}` {
		t.Errorf("created with %+v", got)
	}
	member := callAgent(t, b, id, "GetAgent", functiontest.AsMember("org-1")).Want(t, http.StatusOK, "")
	if shown := schedulesOf(t, member); len(shown) != 2 || shown[1].Body != nil || strings.Contains(string(member.Body), `"p"`) {
		t.Errorf("a member sees %+v", shown)
	}
	if got := schedulesOf(t, patchAgent(t, b, id, `{"name":"b"}`).Want(t, http.StatusOK, "")); len(got) != 2 {
		t.Errorf("after another change: %+v", got)
	}
	if got := schedulesOf(t, patchAgent(t, b, id, `{"schedules":[{"id":"check","cron":"0 0 * * *","path":"/check"}]}`).
		Want(t, http.StatusOK, "")); len(got) != 1 || !got[0].Enabled {
		t.Errorf("after another list: %+v", got)
	}
	if got := schedulesOf(t, patchAgent(t, b, id, `{"schedules":null,"files":null}`).Want(t, http.StatusOK, "")); len(got) != 0 {
		t.Errorf("after null: %+v", got)
	}
}

func TestAgents_RefuseSchedules(t *testing.T) {
	t.Parallel()
	b := newRoomyBackend(t)
	id := createScheduled(t, b, `[]`).Want(t, http.StatusCreated, "").Text("id")
	schedule := func(fields string) string {
		all := map[string]any{"id": "s", "cron": "0 9 * * *", "path": "/run"}
		must(t, json.Unmarshal([]byte("{"+fields+"}"), &all))
		text, err := json.Marshal(all)
		must(t, err)
		return string(text)
	}
	many := make([]string, 21)
	for i := range many {
		many[i] = schedule(fmt.Sprintf(`"id":"s%d"`, i))
	}
	large := make([]string, 5)
	for i := range large {
		large[i] = schedule(fmt.Sprintf(`"id":"s%d","body":"%s"`, i, strings.Repeat("a b ", 4000)))
	}
	at := func(field string) string { return `["body","schedules",0,"` + field + `"]` }
	for name, row := range map[string]struct{ list, want string }{
		"no expression":    {list: schedule(`"cron":"hourly"`), want: at("cron")},
		"too often":        {list: schedule(`"cron":"* * * * *"`), want: at("cron")},
		"an unknown zone":  {list: schedule(`"timezone":"Mars/Olympus"`), want: at("timezone")},
		"the local zone":   {list: schedule(`"timezone":"Local"`), want: at("timezone")},
		"the front's":      {list: schedule(`"path":"/handoff"`), want: at("path")},
		"health":           {list: schedule(`"path":"/health/calls"`), want: at("path")},
		"another host":     {list: schedule(`"path":"//example.com/"`), want: at("path")},
		"a query":          {list: schedule(`"path":"/run?x=1"`), want: at("path")},
		"V1":               {list: schedule(`"path":"/V1/run"`), want: at("path")},
		"a long path":      {list: schedule(`"path":"/` + strings.Repeat("a", 256) + `"`), want: at("path")},
		"a long body":      {list: schedule(`"body":"` + strings.Repeat("a", 16<<10+1) + `"`), want: at("body")},
		"a secret":         {list: schedule(`"body":"sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"`), want: at("body")},
		"an upper-case id": {list: schedule(`"id":"S"`), want: at("id")},
		"a long id":        {list: schedule(`"id":"` + strings.Repeat("a", 41) + `"`), want: at("id")},
		"no such policy":   {list: schedule(`"missed":"all"`), want: at("missed")},
		"two of one id":    {list: schedule(``) + "," + schedule(``), want: `["body","schedules",1,"id"]`},
		"too many":         {list: strings.Join(many, ","), want: `["body","schedules"]`},
		"too large":        {list: strings.Join(large, ","), want: `["body","schedules"]`},
		"all together":     {list: schedule(`"path":"/handoff","cron":"x","timezone":"x","body":"\u0000"`), want: at("body")},
	} {
		for _, res := range []functiontest.Response{
			patchAgent(t, b, id, `{"schedules":[`+row.list+`]}`), createScheduled(t, b, `[`+row.list+`]`),
		} {
			if res.Status != http.StatusUnprocessableEntity || !strings.Contains(string(res.Body), row.want) {
				t.Errorf("%s: %.400s, want a violation at %s", name, res.Body, row.want)
			}
			if name == "all together" && strings.Count(string(res.Body), `"loc"`) != 4 {
				t.Errorf("%s: %s, want four violations", name, res.Body)
			}
		}
	}
}

// A time at which nothing would happen is refused; one that was set before can be forgotten.
func TestWakeAgentAt_IsRefusedIfSchedulesDoNotWake(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	soon := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	a := b.UpdateAgent(t, b.RunningAgent(t, "org-1", nil).ID, func(a *agent.Agent) {
		a.Sleep = agent.SleepPolicy{AfterSeconds: 300, WakeOn: []agent.Waker{agent.RequestWakes}}
		a.WakeAt = soon
	})
	call := func(body string, options ...functiontest.Option) functiontest.Response {
		return b.CallNamed(t, "WakeAgentAt", append(options, functiontest.AsAdmin("org-1"),
			functiontest.Path("agent_id", a.ID), functiontest.RawBody(body))...)
	}
	at := `{"at":"` + soon.Add(time.Hour).Format(time.RFC3339) + `"}`
	call(at, dryRun()).Want(t, http.StatusConflict, "wake_disabled")
	refused := call(at).Want(t, http.StatusConflict, "wake_disabled")
	if got := b.Agent(t, a.ID).WakeAt; !got.Equal(soon) || !strings.Contains(string(refused.Body), "sleep.wake_on") {
		t.Errorf("the agent is woken at %v, and the answer is %s", got, refused.Body)
	}
	if call(`{"at":null}`).Want(t, http.StatusOK, ""); !b.Agent(t, a.ID).WakeAt.IsZero() {
		t.Errorf("after null: %v", b.Agent(t, a.ID).WakeAt)
	}
}

// A time at which nothing would happen any more is forgotten: it would be shown, and would wake the agent late once
// schedules wake it again.
func TestWakeAgentAt_IsForgottenIfSchedulesNoLongerWake(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	a := b.UpdateAgent(t, b.RunningAgent(t, "org-1", nil).ID, func(a *agent.Agent) {
		a.Sleep, a.WakeAt = agent.SleepAfter(300), time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	})
	for _, row := range []struct {
		body      string
		wantKnown bool
	}{
		{body: `{"sleep":{"after_seconds":600}}`, wantKnown: true},
		{body: `{"sleep":{"after_seconds":null}}`, wantKnown: true}, // it is awake then
		{body: `{"sleep":{"after_seconds":600,"wake_on":["request"]}}`},
	} {
		patchAgent(t, b, a.ID, row.body).Want(t, http.StatusOK, "")
		if known := !b.Agent(t, a.ID).WakeAt.IsZero(); known != row.wantKnown {
			t.Errorf("after %s, the agent has a time: %t, want %t", row.body, known, row.wantKnown)
		}
	}
}

func TestWakeAgentAt_SetsOneTime(t *testing.T) {
	t.Parallel()
	b := newRoomyBackend(t)
	id := createScheduled(t, b, `[]`).Want(t, http.StatusCreated, "").Text("id")
	call := func(at string) functiontest.Response {
		return callAgent(t, b, id, "WakeAgentAt", functiontest.RawBody(`{"at":`+at+`}`))
	}
	soon := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	if got := call(`"`+soon.Format(time.RFC3339)+`"`).Want(t, http.StatusOK, "").Text("wake_at"); got != soon.Format(time.RFC3339) {
		t.Errorf("wake_at is %s, want %s", got, soon)
	}
	for _, form := range []string{
		strings.ToLower(soon.Format(time.RFC3339)), soon.Format(time.DateOnly) + "T23:59:60Z",
	} {
		want, err := function.ParseTime(form)
		call(`"`+form+`"`).Want(t, http.StatusOK, "")
		if got := b.Agent(t, id).WakeAt; err != nil || !got.Equal(want) {
			t.Errorf("after %s: %v, want %v (%v)", form, got, want, err)
		}
	}
	// Programs send the smallest time that they know. The store has none before the year 1.
	for _, past := range []string{
		"0000-01-01T00:00:00Z", "0001-01-01T00:00:00+01:00", "0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z",
	} {
		call(`"`+past+`"`).Want(t, http.StatusOK, "")
		if got := b.Agent(t, id).WakeAt; !got.Equal(time.Unix(0, 0)) {
			t.Errorf("after %s: %v, want a time in the past", past, got)
		}
	}
	if call(`null`).Want(t, http.StatusOK, ""); !b.Agent(t, id).WakeAt.IsZero() {
		t.Errorf("after null: %v", b.Agent(t, id).WakeAt)
	}
	for _, wrong := range []string{
		`"` + time.Now().Add(367*24*time.Hour).UTC().Format(time.RFC3339) + `"`, `"tomorrow"`, `5`, `""`,
	} {
		res := call(wrong).Want(t, http.StatusUnprocessableEntity, "validation_error")
		if !strings.Contains(string(res.Body), `["body","at"]`) {
			t.Errorf("%s: %s", wrong, res.Body)
		}
	}
}

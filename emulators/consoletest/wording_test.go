//go:build unix

package consoletest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"agents.example/controlplane/emulators/consoletest"
)

// result returns what a function of the module returns for arguments.
func result[T any](p *consoletest.Page, function string, arguments ...any) T {
	list, _ := json.Marshal(arguments)
	return consoletest.Eval[T](p, fmt.Sprintf("module.%s(...%s)", function, list))
}

// TestDiagnosisCard_SaysEachThingOnce checks which words of a diagnosis the card shows in addition to its title, its
// buttons and the figures below it.
func TestDiagnosisCard_SaysEachThingOnce(t *testing.T) {
	t.Parallel()
	p := module(t, "agent/diagnosis-text.ts")
	const crash = "The agent exits soon after it starts"
	for _, c := range []struct {
		message, title, want string
		advised              bool
	}{
		{
			message: crash + ": exit code 1. Check its environment variables and secrets, then restart it.",
			title:   crash, advised: true, want: "Exit code 1.",
		},
		{
			message: "The cluster cannot pull the agent's image. Contact support to check the image.",
			title:   "The cluster cannot get the agent's image", advised: true,
		},
		{message: crash + ".", title: crash},
		{
			message: "The agent exceeded its plan's memory limit of 1 GiB and was killed. Reduce its memory use.",
			title:   "The agent needs more memory than its plan has", advised: true,
			want: "The agent exceeded its plan's memory limit of 1 GiB and was killed.",
		},
		{message: "Check it.", title: crash, want: "Check it."}, // the only advice
	} {
		if got := result[string](p, "newIn", c.message, c.title, c.advised); got != c.want {
			t.Errorf("%q below %q is %q, want %q", c.message, c.title, got, c.want)
		}
	}
	type fact struct{ Text, At string }
	got := result[[]fact](p, "factsOf", []string{
		"status: error", "reason: Error", "exit code: 137", "reason: OOMKilled", "restarts: 9", "stage: ready",
		"not ready since: 2026-03-02T09:30:00Z", "it runs in a sandbox", "a new fact: 7",
		"seen: 2026-03-02T09:31:00.5Z",
	})
	want := []fact{
		{Text: "Its container ended with exit code 137"},
		{Text: "The cluster ended it, because it used more memory than its plan has"},
		{Text: "It has not been ready since", At: "2026-03-02T09:30:00Z"},
		{Text: "It runs in a sandbox"},
		{Text: "A new fact: 7"},
		{Text: "Seen", At: "2026-03-02T09:31:00.5Z"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	for _, c := range []struct{ text, action, want string }{
		{text: "Check it, then restart it.", action: "start", want: "Check it, then start it."},
		{text: "Then start it again.", action: "restart", want: "Then restart it."},
		{text: "Start it again.", action: "restart", want: "Restart it."},
		{text: "Read its log while it starts.", action: "read_logs", want: "Read its log while it starts."},
	} {
		if got := result[string](p, "stepWith", c.text, c.action); got != c.want {
			t.Errorf("%q with the button %s is %q, want %q", c.text, c.action, got, c.want)
		}
	}
}

// row is a row of the history, as the module makes it.
type row struct {
	Title   string
	Details []string
	Own     bool
	Parts   []row
}

// TestHistory_TellsEachThingOnce makes a story of what the service has about an agent: calls, events and operations.
func TestHistory_TellsEachThingOnce(t *testing.T) {
	t.Parallel()
	p := module(t, "agent/history-story.ts", "agent/history-entry.ts", "agent/history-event.ts")
	audit := func(at, action, changes string) string {
		return fmt.Sprintf(`{"id": %q, "created_at": %[1]q, "action": %[2]q, "outcome": "succeeded", "replayed": false,
			"changes": [%[3]s], "actor": {"type": "api_key", "id": "k1", "email": null, "role": "admin",
			"key_prefix": "so_abc"}}`, at, action, changes)
	}
	event := func(at, kind, data string) string {
		return fmt.Sprintf(`{"id": "%s %s", "type": %[2]q, "created_at": %[1]q, "data": %[3]s}`, at, kind, data)
	}
	day := func(clock string) string { return "2026-03-02T" + clock + "Z" }
	entries := fmt.Sprintf(`[...[%s].map(audit => module.auditEntry(audit, new Map([["k1", "deploy"]]))),
		...[%s].map(module.eventEntry), ...[%s].map(module.operationEntry)]`,
		strings.Join([]string{
			audit(day("09:00:00.0"), "CreateAgent", ""),
			audit(day("09:10:00.4"), "UpdateAgent", `{"field": "env_vars.A", "old": null, "new": "set"},
				{"field": "env_vars.B", "old": null, "new": "set"}`),
			audit(day("09:10:00.5"), "UpdateAgent", `{"field": "name", "old": "x", "new": "y"}`),
			audit(day("09:20:00.0"), "PutSecrets", `{"field": "secrets.KEY", "old": null, "new": "set"}`),
			audit(day("09:30:00.0"), "RotateCredentials", `{"field": "credentials", "old": null, "new": "changed"}`),
			audit(day("09:40:00.0"), "StopAgent", `{"field": "status", "old": "running", "new": "stopped"}`),
			audit(day("09:45:00.0"), "ResumeAgent", `{"field": "status", "old": "paused", "new": "provisioning"}`),
		}, ","),
		strings.Join([]string{
			event(day("09:00:00.1"), "agent.created", `{}`),
			event(day("09:00:00.2"), "agent.stage_changed", `{"stage": "ready", "status": "succeeded", "attempt": 1}`),
			event(day("09:00:00.3"), "agent.updated", `{"changes": ["hostname"]}`),
			event(day("09:00:01.0"), "agent.running", `{}`),
			event(day("09:10:00.45"), "agent.updated", `{"changes": ["env_vars", "dashboard_warming"]}`),
			event(day("09:10:00.55"), "agent.updated", `{"changes": ["name"]}`),
			event(day("09:20:00.2"), "secret_operation.stored", `{"operation_id": "o1"}`),
			event(day("09:20:00.2"), "agent.updated", `{"changes": ["env_vars"]}`),
			event(day("09:20:00.4"), "secret_operation.succeeded", `{"operation_id": "o1"}`),
			event(day("09:30:00.1"), "agent.updated", `{"changes": ["dashboard_warming", "credential_rotation_pending"]}`),
			event(day("09:30:00.6"), "credentials.rotated", `{"credential_version": 2}`),
			event(day("09:40:00.2"), "agent.stopped", `{}`),
			event(day("09:45:00.2"), "agent.woken", `{"cause": "resume"}`),
			event(day("09:50:00.0"), "agent.updated", `{"changes": ["schedules", "dashboard_warming"]}`),
		}, ","),
		strings.Join([]string{
			operationOf("o1", "KEY", "set", day("09:20:00.1"), day("09:20:00.3")),
			operationOf("o2", "DASHBOARD_CREDENTIALS", "rotate", day("09:30:00.0"), day("09:30:00.5")),
		}, ","))
	got := consoletest.Eval[[]row](p, "module.tellStory("+entries+")")
	by := []string{"By API key “deploy”"}
	want := []row{
		{Title: "Changed: schedules", Details: []string{}},
		{Title: "Agent resumed", Details: by},
		{Title: "Agent stopped", Details: by},
		{
			Title: "Credentials rotated", Details: append(by[:1:1], "In use 500 ms later"),
			Parts: []row{{Title: "The agent accepted the new credentials, and refused the old ones"}},
		},
		{Title: "Secret KEY set", Details: append(by[:1:1], "In use 200 ms later"), Parts: []row{
			{Title: "The new value was stored", Details: []string{}}, {Title: "The agent used it", Details: []string{}},
		}},
		{Title: "Renamed to “y”", Details: by},
		{Title: "Variables A and B set", Details: by},
		{Title: "Agent runs", Details: []string{}},
		{Title: "Changed: hostname", Details: []string{}, Own: true},
		{Title: "Stage “Ready”", Details: []string{}, Own: true},
		{Title: "Agent created", Details: by},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the story (-want +got):\n%s", diff)
	}
}

func operationOf(id, key, action, created, updated string) string {
	return fmt.Sprintf(`{"id": %q, "key": %q, "action": %q, "stage": "complete", "status": "succeeded",
		"error_code": null, "attempt_count": 1, "created_at": %q, "updated_at": %q}`, id, key, action, created, updated)
}

// TestPalette_FindsTheBestFirst searches commands by words that are in different parts of them.
func TestPalette_FindsTheBestFirst(t *testing.T) {
	t.Parallel()
	p := module(t, "palette/match.ts")
	const commands = `[
		{id: "1", group: "Agents", text: "mail reader", hint: "Running", words: "4f1c-99 europe-west1"},
		{id: "2", group: "Agents", text: "reader", hint: "Asleep", words: "7a2a-11 us-central1"},
		{id: "3", group: "Pages", text: "Usage", always: false},
		...Array.from({length: 20}, (_, i) => ({id: "many" + i, group: "Many", text: "bulk " + i})),
	]`
	for _, c := range []struct {
		search string
		want   []string
	}{
		{search: "reader", want: []string{"2", "1"}},
		{search: " READER  run", want: []string{"1"}},
		{search: "7a2a-11", want: []string{"2"}},
		{search: "pages usage", want: []string{"3"}},
		{search: "absent"},
		{
			search: "bulk 1",
			want:   []string{"many1", "many10", "many11", "many12", "many13", "many14", "many15", "many16"},
		},
	} {
		got := consoletest.Eval[[]string](p, fmt.Sprintf("module.matching(%s, %q).map(command => command.id)", commands,
			c.search))
		if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.search, diff)
		}
	}
}

// TestMarkers_SayWhatExplainsACurve chooses the events of a period, and joins those that a chart could not tell apart.
func TestMarkers_SayWhatExplainsACurve(t *testing.T) {
	t.Parallel()
	p := module(t, "agent/markers.ts")
	const events = `[
		{id: "1", type: "agent.created", created_at: "2026-03-02T08:59:59Z", data: {}},
		{id: "2", type: "agent.running", created_at: "2026-03-02T09:00:10Z", data: {}},
		{id: "3", type: "agent.updated", created_at: "2026-03-02T09:10:00Z", data: {changes: ["dashboard_warming"]}},
		{id: "4", type: "agent.updated", created_at: "2026-03-02T09:10:04Z", data: {changes: ["dashboard_warming"]}},
		{id: "5", type: "agent.error", created_at: "2026-03-02T09:10:40Z", data: {}},
		{id: "6", type: "agent.updated", created_at: "2026-03-02T09:20:00Z", data: {changes: ["hostname"]}},
		{id: "7", type: "agent.stage_changed", created_at: "2026-03-02T09:21:00Z", data: {stage: "ready"}},
		{id: "8", type: "agent.updated", created_at: "2026-03-02T09:30:00Z", data: {changes: ["env_vars"]}},
		{id: "9", type: "agent.asleep", created_at: "2026-03-02T10:00:01Z", data: {}},
	]`
	type marker struct {
		At    float64
		Tone  string
		Texts []string
	}
	from := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC).Unix()
	got := consoletest.Eval[[]marker](p, fmt.Sprintf("module.markersOf(%s, %d, %d, 60)", events, from, from+3600))
	want := []marker{
		{At: float64(from + 10), Tone: "good", Texts: []string{"Agent runs"}},
		{At: float64(from + 600), Tone: "bad", Texts: []string{"Pod replaced", "Agent failed"}},
		{At: float64(from + 1800), Tone: "idle", Texts: []string{"Changed: variables"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("markers (-want +got):\n%s", diff)
	}
}

// TestLogLine_ShowsTheMessage reads lines as usual loggers write them. Other lines stay as they are.
func TestLogLine_ShowsTheMessage(t *testing.T) {
	t.Parallel()
	p := module(t, "agent/log-line.ts")
	type said struct{ Text, Level string }
	for raw, want := range map[string]said{
		`{"time":"2026-03-02T09:30:00Z","severity":"INFO","message":"serving","address":"[::]:80"}`: {
			Text: "serving address=[::]:80", Level: "info",
		},
		`{"level":50,"time":1772443800000,"pid":7,"msg":"it failed","err":{"code":"E 1"}}`: {
			Text: `it failed pid=7 err={"code":"E 1"}`, Level: "error",
		},
		`{"ts":1,"level":"warning","event":"slow","path":"/a b","error":null}`: {
			Text: `slow path="/a b" error=null`, Level: "warn",
		},
		`{"level":"trace","message":""}`:    {Level: "debug"},
		`{"level":"odd","message":"said"}`:  {Text: "said level=odd"},
		`{"severity":"ERROR","code":7}`:     {Text: `{"severity":"ERROR","code":7}`, Level: "error"},
		`{"message":"cut off`:               {Text: `{"message":"cut off`},
		`{}`:                                {Text: `{}`},
		"plain text with a warning":         {Text: "plain text with a warning", Level: "warn"},
		"2026-03-02 Traceback (most recent": {Text: "2026-03-02 Traceback (most recent", Level: "error"},
		"":                                  {},
	} {
		if got := result[said](p, "readable", raw); got != want {
			t.Errorf("%s is %+v, want %+v", raw, got, want)
		}
	}
}

//go:build unix

package consoletest_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

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
		"not ready since: 2026-03-02T09:30:00Z", "it runs in a sandbox", "a new fact: 7", "seen: 2026-03-02T09:31:00.5Z",
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

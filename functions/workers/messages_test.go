package workers

import (
	"testing"
	"time"

	"agents.example/controlplane/shared/egresslog"
	"agents.example/controlplane/shared/function"
)

// TestAgentNudge_ReadsNudgesOfOtherReleases: a message may come from a release a week ago, or from a newer one.
func TestAgentNudge_ReadsNudgesOfOtherReleases(t *testing.T) {
	t.Parallel()
	const id = "3fa85f64-5717-4562-b3fc-2c963f66afa6"
	for name, data := range map[string]string{
		"first release": `{"agent_id":"` + id + `"}`,
		"later release": `{"agent_id":"` + id + `","reason":"created","generation":7,"trace":{"id":"x"}}`,
	} {
		if got, err := agentNudge(function.Message{Data: []byte(data)}); err != nil || got.AgentID != id || got.Wake {
			t.Errorf("%s: agentNudge = %+v, %v; want %q", name, got, err, id)
		}
	}
	for name, data := range map[string]string{
		"empty": ``, "no agent": `{}`, "invalid id": `{"agent_id":"all"}`,
		"not an object": `["` + id + `"]`,
	} {
		if got, err := agentNudge(function.Message{Data: []byte(data)}); err == nil {
			t.Errorf("%s: agentNudge = %+v, want an error", name, got)
		}
	}
}

// TestRecordEgress_DropsWhatIsNoReport: a message that no retry can repair must not come again.
func TestRecordEgress_DropsWhatIsNoReport(t *testing.T) {
	t.Parallel()
	worker := RecordEgress(&egresslog.Recorder{Now: time.Now}) // without a log, which would be written to
	for _, data := range []string{``, `x`, `[]`, `{}`, `{"gate":"g","reports":[{}]}`, `{"gate":"g","reports":{}}`} {
		if err := worker.Handle(t.Context(), function.Message{Data: []byte(data)}); err != nil {
			t.Errorf("the message %q fails: %v", data, err)
		}
	}
}

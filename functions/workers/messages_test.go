package workers

import (
	"testing"

	"agents.example/controlplane/shared/function"
)

// TestMessagesOfOtherReleases reads nudges as other releases publish them. A message may be a week old, or younger than
// its reader.
func TestMessagesOfOtherReleases(t *testing.T) {
	t.Parallel()
	const id = "3fa85f64-5717-4562-b3fc-2c963f66afa6"
	for name, data := range map[string]string{
		"the first release": `{"agent_id":"` + id + `"}`,
		"a later one":       `{"agent_id":"` + id + `","reason":"created","generation":7,"trace":{"id":"x"}}`,
	} {
		if got, err := agentID(function.Message{Data: []byte(data)}); err != nil || got != id {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, data := range map[string]string{"nothing": ``, "no agent": `{}`, "no id": `{"agent_id":"all"}`,
		"no object": `["` + id + `"]`} {
		if got, err := agentID(function.Message{Data: []byte(data)}); err == nil {
			t.Errorf("%s is taken for the agent %q", name, got)
		}
	}
}

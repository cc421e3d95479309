package diagnosis

import (
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/plan"
)

// TestSteps_HaveTheNameOfTheirAction diagnoses every failure of an agent that can only be started, and of one that can
// only be restarted.
func TestSteps_HaveTheNameOfTheirAction(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 2, 9, 40, 0, 0, time.UTC)
	for _, r := range rules() {
		for _, ended := range []bool{true, false} {
			a := agent.New("0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90", "us-central1-1", agent.Draft{
				Name: "a", Plan: plan.Hobby,
			}, now)
			a.Failure = &agent.Failure{Code: r.code, Message: "m"}
			a.Status = agent.Running
			if ended {
				a.GiveUp(*a.Failure, now)
			}
			for _, s := range Of(Facts{Agent: a, Now: now}).Causes[0].YouCan {
				text := strings.ToLower(s.Text)
				if s.Action == Restart && !strings.Contains(text, "restart") ||
					s.Action == Start && (strings.Contains(text, "restart") || !strings.Contains(text, "start")) {
					t.Errorf("%s of an agent that is %s: the step %s says %q", r.code, a.Status, s.Action, s.Text)
				}
			}
		}
	}
}

package billing_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/plan"
)

// fleet makes agents from words such as "hobby:running" or "pro:paused/billing", the oldest first. Their ids are a, b,
// c and so on.
func fleet(words string) []agent.Agent {
	var agents []agent.Agent
	for i, word := range strings.Fields(words) {
		size, state, _ := strings.Cut(word, ":")
		status, reason, _ := strings.Cut(state, "/")
		agents = append(agents, agent.Agent{
			ID: string(rune('a' + i)), Plan: plan.ID(size), Status: agent.Status(status),
			StatusReason: agent.StatusReason(reason),
			CreatedAt:    start.Add(time.Duration(i) * time.Hour), Generation: 1, ObservedGeneration: 1,
		})
	}
	return agents
}

// TestConsequences: rows are worlds (an account, its age, its agents), and what becomes of the agents.
func TestConsequences(t *testing.T) {
	t.Parallel()
	const never = -1
	suspended := account(billing.Active, plan.Pro)
	suspended.Suspend(true, start)
	due := account(billing.PastDue, plan.Startup)
	paid := account(billing.Active, plan.Startup)
	ended := account(billing.Canceled, plan.Startup)
	for name, c := range map[string]struct {
		account billing.Account
		after   time.Duration
		agents  string
		moves   string
		next    time.Duration // after the look; never for none
	}{
		"all is well": {account: paid, after: day, agents: "startup:running hobby:stopped/manual",
			moves: "", next: never},
		"in the grace": {account: due, after: 6 * day, agents: "startup:running", moves: "",
			next: day},
		"just before its end": {account: due, after: 7*day - time.Second, agents: "startup:running",
			moves: "", next: time.Second},
		"after the grace": {account: due, after: 7 * day,
			agents: "startup:running hobby:running hobby:paused/manual", moves: "pause a, pause b",
			next: 5 * time.Minute},
		"after the grace, nothing runs": {account: due, after: 9 * day, agents: "startup:paused/billing", moves: "",
			next: 5 * time.Minute},
		"after the grace, one comes up": {account: due, after: 9 * day,
			agents: "startup:provisioning hobby:running", moves: "pause b", next: 0},
		"after the grace, one is broken": {account: due, after: 9 * day, agents: "startup:error", moves: "",
			next: 5 * time.Minute},
		"paid after all": {account: paid, after: 9 * day,
			agents: "startup:paused/billing hobby:paused/manual hobby:stopped/manual", moves: "resume a", next: never},
		"suspended": {account: suspended, after: 0, agents: "pro:running pro:stopped/manual",
			moves: "pause a", next: 5 * time.Minute},
		"canceled, within hobby": {account: ended, after: 0, agents: "hobby:running", moves: "",
			next: never},
		"canceled, two small": {account: ended, after: 0, agents: "hobby:running hobby:running",
			moves: "pause b", next: 5 * time.Minute},
		"canceled, the older too large": {account: ended, after: 0, agents: "startup:running hobby:running",
			moves: "pause a", next: 5 * time.Minute},
		"canceled, the older is resting": {account: ended, after: 0, agents: "hobby:paused/manual hobby:running",
			moves: "", next: never},
		"canceled, one was withheld": {account: ended, after: 0,
			agents: "hobby:paused/billing hobby:paused/billing", moves: "resume a", next: 5 * time.Minute},
		"canceled, one is on its way": {account: ended, after: 0, agents: "hobby:running starter:pending",
			moves: "", next: 0},
		"canceled, the one kept is deleted": {account: ended, after: 0, agents: "hobby:deleting hobby:paused/billing",
			moves: "resume b", next: never},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := start.Add(c.after)
			agents := fleet(c.agents)
			slices.Reverse(agents) // the store lists the newest first
			moves, next := c.account.EnforcementActions(agents, now)
			var said []string
			for _, m := range moves {
				said = append(said, fmt.Sprintf("%s %s", m.Trigger, m.AgentID))
			}
			slices.Sort(said)
			if got := strings.Join(said, ", "); got != c.moves {
				t.Errorf("moves %q, want %q", got, c.moves)
			}
			if want := now.Add(c.next); c.next == never && !next.IsZero() || c.next != never && !next.Equal(want) {
				t.Errorf("next look at %s, want %s after", next, c.next)
			}
			settles(t, c.account, agents, now)
		})
	}
}

// settles: what was moved stays as it is at the next look, and a move that is late changes nothing.
func settles(t *testing.T, a billing.Account, agents []agent.Agent, now time.Time) {
	t.Helper()
	moves, _ := a.EnforcementActions(agents, now)
	for i := range agents {
		for _, m := range moves {
			if m.AgentID != agents[i].ID {
				continue
			}
			if err := m.Apply(&agents[i], now); err != nil {
				t.Error(err)
			}
			once := agents[i].Generation
			if err := m.Apply(&agents[i], now); err != nil || agents[i].Generation != once {
				t.Errorf("%s twice: generation %d, %v; want %d", m.Trigger, agents[i].Generation, err, once)
			}
			if m.Trigger == agent.Pause && agents[i].StatusReason != agent.Billing {
				t.Errorf("paused with reason %q", agents[i].StatusReason)
			}
		}
	}
	if again, _ := a.EnforcementActions(agents, now); len(again) > 0 {
		t.Errorf("a second look moves again: %+v", again)
	}
}

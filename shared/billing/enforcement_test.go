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

// fleet makes agents from words such as "hobby:running" or "pro:paused/billing", the oldest first. Their ids are a, b, c and so on.
func fleet(words string) []agent.Agent {
	var agents []agent.Agent
	for i, word := range strings.Fields(words) {
		size, state, _ := strings.Cut(word, ":")
		status, reason, _ := strings.Cut(state, "/")
		agents = append(agents, agent.Agent{
			ID: string(rune('a' + i)), Plan: plan.ID(size), Status: agent.Status(status), StatusReason: agent.StatusReason(reason),
			CreatedAt: start.Add(time.Duration(i) * time.Hour), Generation: 1, ObservedGeneration: 1,
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
		"all is well":                       {paid, day, "startup:running hobby:stopped/manual", "", never},
		"in the grace":                      {due, 6 * day, "startup:running", "", day},
		"just before its end":               {due, 7*day - time.Second, "startup:running", "", time.Second},
		"after the grace":                   {due, 7 * day, "startup:running hobby:running hobby:paused/manual", "pause a, pause b", 5 * time.Minute},
		"after the grace, nothing runs":     {due, 9 * day, "startup:paused/billing", "", 5 * time.Minute},
		"after the grace, one comes up":     {due, 9 * day, "startup:provisioning hobby:running", "pause b", 0},
		"after the grace, one is broken":    {due, 9 * day, "startup:error", "", 5 * time.Minute},
		"paid after all":                    {paid, 9 * day, "startup:paused/billing hobby:paused/manual hobby:stopped/manual", "resume a", never},
		"suspended":                         {suspended, 0, "pro:running pro:stopped/manual", "pause a", 5 * time.Minute},
		"canceled, within hobby":            {ended, 0, "hobby:running", "", never},
		"canceled, two small":               {ended, 0, "hobby:running hobby:running", "pause b", 5 * time.Minute},
		"canceled, the older too large":     {ended, 0, "startup:running hobby:running", "pause a", 5 * time.Minute},
		"canceled, the older is resting":    {ended, 0, "hobby:paused/manual hobby:running", "", never},
		"canceled, one was withheld":        {ended, 0, "hobby:paused/billing hobby:paused/billing", "resume a", 5 * time.Minute},
		"canceled, one is on its way":       {ended, 0, "hobby:running starter:pending", "", 0},
		"canceled, the one kept is deleted": {ended, 0, "hobby:deleting hobby:paused/billing", "resume b", never},
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

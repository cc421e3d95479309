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

// parseAgents makes agents from words such as "hobby:running" or "pro:paused/billing" (plan:status/reason), the oldest
// first. Their ids are a, b, c and so on.
func parseAgents(words string) []agent.Agent {
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

func TestAccount_EnforcementActions(t *testing.T) {
	t.Parallel()
	const never = -1
	suspended := account(billing.Active, plan.Pro)
	suspended.Suspend(true, start)
	due := account(billing.PastDue, plan.Startup)
	paid := account(billing.Active, plan.Startup)
	ended := account(billing.Canceled, plan.Startup)
	unknown := account(billing.Active, plan.Pro)
	unknown.Plan = "later"
	suspendedUnknown := unknown
	suspendedUnknown.Suspend(true, start)
	for name, c := range map[string]struct {
		account     billing.Account
		age         time.Duration
		agents      string
		wantActions string
		wantNext    time.Duration // until the next check; never for no check
	}{
		"paid": {
			account: paid, age: day, agents: "startup:running hobby:stopped/manual", wantNext: never,
		},
		"in the grace period": {account: due, age: 6 * day, agents: "startup:running", wantActions: "", wantNext: day},
		"just before the grace period ends": {
			account: due, age: 7*day - time.Second, agents: "startup:running", wantNext: time.Second,
		},
		"after the grace period": {
			account: due, age: 7 * day, agents: "startup:running hobby:running hobby:paused/manual",
			wantActions: "withhold a, withhold b", wantNext: 5 * time.Minute,
		},
		"after the grace period, no agent runs": {
			account: due, age: 9 * day, agents: "startup:paused/billing", wantNext: 5 * time.Minute,
		},
		"after the grace period, one agent is starting": {
			account: due, age: 9 * day, agents: "startup:provisioning hobby:running",
			wantActions: "withhold a, withhold b", wantNext: 5 * time.Minute,
		},
		"after the grace period, one agent is broken": {
			account: due, age: 9 * day, agents: "startup:error", wantActions: "withhold a", wantNext: 5 * time.Minute,
		},
		"in the grace period, an agent sleeps": {
			account: due, age: 6 * day, agents: "startup:paused/idle", wantNext: day,
		},
		"after the grace period, an agent sleeps": {
			account: due, age: 9 * day, agents: "startup:paused/idle",
			wantActions: "withhold a", wantNext: 5 * time.Minute,
		},
		"canceled, an agent sleeps and the other one runs": {
			account: ended, age: 0, agents: "hobby:paused/idle hobby:running",
			wantActions: "withhold a", wantNext: 5 * time.Minute,
		},
		"overdue payment made": {
			account: paid, age: 9 * day, agents: "startup:paused/billing hobby:paused/manual hobby:stopped/manual",
			wantActions: "resume a", wantNext: never,
		},
		"suspended": {
			account: suspended, age: 0, agents: "pro:running pro:stopped/manual hobby:error hobby:pending",
			wantActions: "withhold a, withhold c, withhold d", wantNext: 5 * time.Minute,
		},
		"canceled, within the free plan": {account: ended, age: 0, agents: "hobby:running", wantNext: never},
		"canceled, two small agents": {
			account: ended, age: 0, agents: "hobby:running hobby:running",
			wantActions: "withhold b", wantNext: 5 * time.Minute,
		},
		"canceled, the older agent is too large": {
			account: ended, age: 0, agents: "startup:running hobby:running",
			wantActions: "withhold a", wantNext: 5 * time.Minute,
		},
		"canceled, the older agent was paused by its owner": {
			account: ended, age: 0, agents: "hobby:paused/manual hobby:running", wantNext: never,
		},
		"canceled, two agents are paused for billing": {
			account: ended, age: 0, agents: "hobby:paused/billing hobby:paused/billing",
			wantActions: "resume a", wantNext: 5 * time.Minute,
		},
		"canceled, one agent is pending": {
			account: ended, age: 0, agents: "hobby:running starter:pending",
			wantActions: "withhold b", wantNext: 5 * time.Minute,
		},
		"canceled, the older agent is broken": {
			account: ended, age: 0, agents: "hobby:error hobby:running",
			wantActions: "withhold a", wantNext: 5 * time.Minute,
		},
		"canceled, the only agent is broken": {account: ended, age: 0, agents: "hobby:error", wantNext: never},
		"canceled, an agent is paused for billing and the other one runs": {
			account: ended, age: 0, agents: "hobby:paused/billing hobby:running", wantNext: 5 * time.Minute,
		},
		"a plan of a later release": {
			account: unknown, age: 0, agents: "pro:running hobby:error hobby:paused/billing", wantNext: 5 * time.Minute,
		},
		"a suspended organization on a plan of a later release": {
			account: suspendedUnknown, age: 0, agents: "pro:running later:running",
			wantActions: "withhold a, withhold b", wantNext: 5 * time.Minute,
		},
		"agents on a plan of a later release": {
			account: paid, age: 0, agents: "later:running later:paused/billing hobby:running",
			wantActions: "", wantNext: 5 * time.Minute,
		},
		"canceled, the older agent is being deleted": {
			account: ended, age: 0, agents: "hobby:deleting hobby:paused/billing",
			wantActions: "resume b", wantNext: never,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := start.Add(c.age)
			agents := parseAgents(c.agents)
			slices.Reverse(agents) // the store lists the newest first
			actions, next := c.account.EnforcementActions(agents, now)
			var words []string
			for _, a := range actions {
				words = append(words, fmt.Sprintf("%s %s", a.Trigger, a.AgentID))
			}
			slices.Sort(words)
			if got := strings.Join(words, ", "); got != c.wantActions {
				t.Errorf("actions = %q, want %q", got, c.wantActions)
			}
			if c.wantNext == never {
				if !next.IsZero() {
					t.Errorf("next check at %s, want none", next)
				}
			} else if want := now.Add(c.wantNext); !next.Equal(want) {
				t.Errorf("next check at %s, want %s", next, want)
			}
			applyTwice(t, agents, actions, now)
			if again, _ := c.account.EnforcementActions(agents, now); len(again) > 0 {
				t.Errorf("actions of a second check = %+v, want none", again)
			}
		})
	}
}

// applyTwice applies actions to agents, and checks that a second Apply changes nothing.
func applyTwice(t *testing.T, agents []agent.Agent, actions []billing.Action, now time.Time) {
	t.Helper()
	for i := range agents {
		for _, a := range actions {
			if a.AgentID != agents[i].ID {
				continue
			}
			if err := a.Apply(&agents[i], now); err != nil {
				t.Errorf("%s agent %s: %v", a.Trigger, a.AgentID, err)
			}
			once := agents[i].Generation
			if err := a.Apply(&agents[i], now); err != nil {
				t.Errorf("%s agent %s again: %v", a.Trigger, a.AgentID, err)
			}
			if got := agents[i].Generation; got != once {
				t.Errorf("%s agent %s again: generation = %d, want %d", a.Trigger, a.AgentID, got, once)
			}
			if reason := agents[i].StatusReason; a.Trigger == agent.Withhold && reason != agent.Billing {
				t.Errorf("paused agent %s has reason %q, want %q", a.AgentID, reason, agent.Billing)
			}
		}
	}
}

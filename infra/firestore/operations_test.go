package firestore

import (
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/secret"
)

// scene is a tenant before an operation, seen by a client that nobody sabotages.
type scene struct {
	c     *Client
	org   agenttest.Tenant
	agent agent.Agent
	key   apikey.Key
}

func newScene(t *testing.T, c *Client) scene {
	t.Helper()
	s := scene{c: c, org: agentWorld(c).Tenant(t, plan.Enterprise), key: testKey()}
	s.agent = s.org.Create(plan.Pro)
	if _, err := c.Keys().Create(s.org.Ctx, s.key); err != nil {
		t.Fatal(err)
	}
	return s
}

// operation is something that may be hit by sabotage, and how often it was done.
type operation struct {
	do   func(c *Client, s scene) error
	done func(t *testing.T, s scene) int
	// silent operations write no audit entry.
	silent bool
}

func operations() map[string]operation {
	rollouts := func(t *testing.T, s scene) int { return int(mustLoad(t, s).Rollout) }
	return map[string]operation{
		"create an agent": {
			do: func(c *Client, s scene) error {
				_, err := c.Agents(&agenttest.Nudges{}).Create(s.org.Ctx, agenttest.Draft(plan.Hobby))
				return err
			},
			done: func(t *testing.T, s scene) int { return len(agentsOf(t, s)) - 1 },
		},
		"change an agent": {
			do: func(c *Client, s scene) error {
				_, err := c.Agents(&agenttest.Nudges{}).Change(s.org.Ctx, s.agent.ID, func(a *agent.Agent) error {
					a.Rollout++
					return a.Act(agent.Stop, agent.Manual, agenttest.Now())
				})
				return err
			},
			done: rollouts,
		},
		"begin a secret operation": {
			do: func(c *Client, s scene) error {
				_, err := c.Agents(&agenttest.Nudges{}).Change(s.org.Ctx, s.agent.ID, func(a *agent.Agent) error {
					a.Rollout++
					asked := []secret.Operation{{ID: agenttest.ID(), AgentID: a.ID, Key: "TOKEN", Action: secret.Set}}
					_, err := a.BeginOperations(a.SecretsRevision, asked, agenttest.Now())
					return err
				})
				return err
			},
			done: func(t *testing.T, s scene) int {
				p, err := s.c.Operations().List(s.org.Ctx, s.agent.ID, page.Request{})
				if on := len(mustLoad(t, s).Operations); err != nil || on != len(p.Items) {
					t.Errorf("%d operations on the agent, %d in the history, %v", on, len(p.Items), err)
				}
				return len(p.Items)
			},
		},
		"record progress": {
			do: func(c *Client, s scene) error {
				_, err := c.WorkerStore().Update(s.org.Ctx, s.agent,
					func(a *agent.Agent) { a.Rollout++; a.Status = agent.Stopped })
				return err
			},
			done: rollouts, silent: true,
		},
		"remove an agent": {
			do:   func(c *Client, s scene) error { return c.WorkerStore().Remove(s.org.Ctx, s.agent) },
			done: func(t *testing.T, s scene) int { return 1 - len(agentsOf(t, s)) }, silent: true,
		},
		"create a key": {
			do:   func(c *Client, s scene) error { _, err := c.Keys().Create(s.org.Ctx, testKey()); return err },
			done: func(t *testing.T, s scene) int { return len(keysOf(t, s)) - 1 },
		},
		"revoke a key": {
			do:   func(c *Client, s scene) error { return c.Keys().Revoke(s.org.Ctx, s.key.ID) },
			done: func(t *testing.T, s scene) int { return 1 - len(keysOf(t, s)) },
		},
		"ensure a user": {
			do: func(c *Client, s scene) error {
				return c.Directory().Ensure(s.org.Ctx, s.org.ID, organization.User{ID: s.org.ID})
			},
			done: func(_ *testing.T, s scene) int {
				if _, err := s.c.user(s.org.Ctx, s.org.ID); err != nil {
					return 0
				}
				return 1
			}, silent: true,
		},
	}
}

func mustLoad(t *testing.T, s scene) agent.Agent {
	t.Helper()
	a, err := s.c.WorkerStore().Load(s.org.Ctx, s.agent.ID)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func agentsOf(t *testing.T, s scene) []agent.Agent {
	t.Helper()
	p, err := s.c.Agents(nil).List(s.org.Ctx, agent.Filter{}, page.Request{})
	if err != nil {
		t.Fatal(err)
	}
	return p.Items
}

func keysOf(t *testing.T, s scene) []apikey.Key {
	t.Helper()
	p, err := s.c.Keys().List(s.org.Ctx, page.Request{})
	if err != nil {
		t.Fatal(err)
	}
	return p.Items
}

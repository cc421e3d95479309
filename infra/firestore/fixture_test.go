package firestore

import (
	"maps"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/role"
	"agents.example/controlplane/shared/secret"
	"agents.example/controlplane/shared/webhook"
)

// tenantFixture is an organization with one agent, one API key and one webhook, seen through a client without faults.
type tenantFixture struct {
	client  *Client
	org     agenttest.Tenant
	agent   agent.Agent
	key     apikey.Key
	webhook webhook.Webhook
}

func newTenantFixture(t *testing.T, c *Client) tenantFixture {
	t.Helper()
	x := tenantFixture{client: c, org: agentFixture(c).Tenant(t, plan.Enterprise), key: newKey()}
	x.agent = x.org.Create(plan.Pro)
	_, err := c.Keys().Create(x.org.Ctx, x.key)
	must(t, err)
	x.webhook, err = c.Webhooks().Create(x.org.Ctx, newWebhook())
	must(t, err)
	return x
}

// loadAgent reads the fixture's agent.
func (x tenantFixture) loadAgent(t *testing.T) agent.Agent {
	t.Helper()
	a, err := x.client.WorkerStore().Load(x.org.Ctx, x.agent.ID)
	must(t, err)
	return a
}

func (x tenantFixture) listAgents(t *testing.T) []agent.Agent {
	t.Helper()
	p, err := x.client.Agents(nil).List(x.org.Ctx, agent.Filter{}, page.Request{})
	must(t, err)
	return p.Items
}

func (x tenantFixture) listKeys(t *testing.T) []apikey.Key {
	t.Helper()
	p, err := x.client.Keys().List(x.org.Ctx, page.Request{})
	must(t, err)
	return p.Items
}

func newKey() apikey.Key {
	full := apikey.Generate()
	return apikey.Key{
		ID: agenttest.ID(), Name: "CI", Purpose: "ci", Role: role.Admin, Prefix: full[:apikey.PrefixLength],
		CreatedBy: "user_1", CreatedAt: agenttest.Now(),
	}.HashedWith([]byte("pepper"), full)
}

func stop(a *agent.Agent) error { return a.Act(agent.Stop, agent.Manual, agenttest.Now()) }

func restart(a *agent.Agent) error {
	a.Rollout++
	return nil
}

func changeNothing(*agent.Agent) error { return nil }

// operation is a write that tests run with faults.
type operation struct {
	run func(c *Client, x tenantFixture) error
	// timesDone counts how often the operation was carried out.
	timesDone func(t *testing.T, x tenantFixture) int
	// unaudited operations write no audit entry.
	unaudited bool
}

func operations() map[string]operation {
	countRollouts := func(t *testing.T, x tenantFixture) int { return int(x.loadAgent(t).Rollout) }
	all := webhookOperations()
	maps.Copy(all, map[string]operation{
		"create an agent": {
			run: func(c *Client, x tenantFixture) error {
				_, err := c.Agents(&agenttest.Nudges{}).Create(x.org.Ctx, agenttest.Draft(plan.Hobby))
				return err
			},
			timesDone: func(t *testing.T, x tenantFixture) int { return len(x.listAgents(t)) - 1 },
		},
		"change an agent": {
			run: func(c *Client, x tenantFixture) error {
				_, err := c.Agents(&agenttest.Nudges{}).Change(x.org.Ctx, x.agent.ID, func(a *agent.Agent) error {
					a.Rollout++
					return stop(a)
				})
				return err
			},
			timesDone: countRollouts,
		},
		"change an agent without the right to nudge": {
			run: func(c *Client, x tenantFixture) error {
				_, err := c.Agents(nil).Change(x.org.Ctx, x.agent.ID, func(a *agent.Agent) error {
					a.Rollout++
					return nil
				})
				return err
			},
			timesDone: countRollouts,
		},
		"begin a secret operation": {run: beginSecretOperation, timesDone: countSecretOperations},
		"update an agent as a worker": {
			run: func(c *Client, x tenantFixture) error {
				_, err := c.WorkerStore().Update(x.org.Ctx, x.agent,
					func(a *agent.Agent) { a.Rollout++; a.Status = agent.Stopped })
				return err
			},
			timesDone: countRollouts, unaudited: true,
		},
		"remove an agent": {
			run: func(c *Client, x tenantFixture) error {
				return c.WorkerStore().Remove(x.org.Ctx, x.agent, agent.Deletion{})
			},
			timesDone: func(t *testing.T, x tenantFixture) int { return 1 - len(x.listAgents(t)) },
			unaudited: true,
		},
		"record what an agent was refused": {
			run: func(c *Client, x tenantFixture) error {
				at := time.Now().UTC()
				return c.EgressLog().Record(x.org.Ctx, "gate", egress.Report{
					AgentID: x.agent.ID, Day: at.Format(egress.DayFormat),
					Hosts: []egress.Count{refusedCount("a.example", 1, at)},
				})
			},
			timesDone: func(t *testing.T, x tenantFixture) int { return len(x.client.refusals(t, x.org.ID)) },
			unaudited: true,
		},
		"create a key": {
			run: func(c *Client, x tenantFixture) error {
				_, err := c.Keys().Create(x.org.Ctx, newKey())
				return err
			},
			timesDone: func(t *testing.T, x tenantFixture) int { return len(x.listKeys(t)) - 1 },
		},
		"revoke a key": {
			run:       func(c *Client, x tenantFixture) error { return c.Keys().Revoke(x.org.Ctx, x.key.ID) },
			timesDone: func(t *testing.T, x tenantFixture) int { return 1 - len(x.listKeys(t)) },
		},
		"create a key with a key": {
			run: func(c *Client, x tenantFixture) error {
				_, err := c.Keys().Create(asKey(x.org.Ctx, x.key), newKey())
				return err
			},
			timesDone: func(t *testing.T, x tenantFixture) int { return len(x.listKeys(t)) - 1 },
		},
		"revoke a key with its descendants": {
			run: func(c *Client, x tenantFixture) error {
				return c.Keys().RevokeWithDescendants(x.org.Ctx, x.key.ID)
			},
			timesDone: func(t *testing.T, x tenantFixture) int { return 1 - len(x.listKeys(t)) },
		},
		"ensure a user": {
			run: func(c *Client, x tenantFixture) error {
				return errorOf(c.Directory().Ensure(x.org.Ctx, x.org.ID, organization.User{ID: x.org.ID}))
			},
			timesDone: func(_ *testing.T, x tenantFixture) int {
				if _, err := x.client.readUser(x.org.Ctx, x.org.ID); err != nil {
					return 0
				}
				return 1
			},
			unaudited: true,
		},
	})
	return all
}

func beginSecretOperation(c *Client, x tenantFixture) error {
	_, err := c.Agents(&agenttest.Nudges{}).Change(x.org.Ctx, x.agent.ID, func(a *agent.Agent) error {
		a.Rollout++
		requested := []secret.Operation{{ID: agenttest.ID(), AgentID: a.ID, Key: "TOKEN", Action: secret.Set}}
		_, err := a.BeginOperations(a.SecretsRevision, requested, agenttest.Now())
		return err
	})
	return err
}

// countSecretOperations counts the operations in the history, and checks that the agent has the same number.
func countSecretOperations(t *testing.T, x tenantFixture) int {
	t.Helper()
	history, err := x.client.Operations().List(x.org.Ctx, x.agent.ID, page.Request{})
	must(t, err)
	if got, want := len(x.loadAgent(t).Operations), len(history.Items); got != want {
		t.Errorf("%d operations on the agent, want %d as in the history", got, want)
	}
	return len(history.Items)
}

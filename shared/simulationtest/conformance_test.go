package simulationtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/credential/credentialtest"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/ratelimit"
)

func fixture(*testing.T) agenttest.Fixture {
	d, u, nudges := NewDatabase(), &Direct{}, &agenttest.Nudges{}
	return agenttest.Fixture{
		Store: Agents{Database: d, Process: u, Nudger: nudges}, Log: log{d: d, u: u},
		Records: WorkerStore{Database: d, Process: u}, Nudges: nudges,
		Limited: func(_ testing.TB, creations ratelimit.Limit, now func() time.Time) agent.Store {
			return Agents{Database: d, Process: clocked{u, now}, Nudger: nudges, Creations: creations}
		},
		Organization: func(_ context.Context, id string) (organization.Organization, error) {
			u.Lock()
			defer u.Unlock()
			return d.Organization(id), nil
		},
		SetPlan: func(_ context.Context, id string, p plan.ID) error {
			u.Lock()
			defer u.Unlock()
			d.SetPlan(id, p)
			return nil
		},
		Entries: entriesOf(d, u),
	}
}

// clocked is a process with a separate clock.
type clocked struct {
	*Direct
	now func() time.Time
}

// Now implements Stepper.
func (c clocked) Now() time.Time { return c.now() }

// entriesOf reads the audit entries of an organization in the order of their times.
func entriesOf(d *Database, u *Direct) func(context.Context, string) ([]audit.Entry, error) {
	return func(_ context.Context, id string) (entries []audit.Entry, err error) {
		u.Lock()
		defer u.Unlock()
		for _, e := range d.Entries {
			if e.OrganizationID == id {
				entries = append(entries, e.Entry)
			}
		}
		slices.SortFunc(entries, func(x, y audit.Entry) int { return x.CreatedAt.Compare(y.CreatedAt) })
		return entries, nil
	}
}

// log implements the part of audit.Log that the suites use.
type log struct {
	audit.Log
	d *Database
	u *Direct
}

func (l log) Append(_ context.Context, e audit.Entry) error {
	l.u.Lock()
	defer l.u.Unlock()
	if _, ok := l.d.Entries[e.ID]; !ok {
		l.d.Entries[e.ID] = Entry{Entry: e}
	}
	return nil
}

// Finish implements audit.Log.
func (l log) Finish(_ context.Context, id, outcome string, _ ...audit.Change) error {
	l.u.Lock()
	defer l.u.Unlock()
	e := l.d.Entries[id]
	e.Outcome = outcome
	l.d.Entries[id] = e
	return nil
}

func TestAgents_Conform(t *testing.T) { t.Parallel(); agenttest.TestStore(t, fixture) }

func TestWorkerStore_Conforms(t *testing.T) { t.Parallel(); agenttest.TestWorkerStore(t, fixture) }

func TestSecretClient_Conforms(t *testing.T) {
	t.Parallel()
	u := &Direct{}
	store := SecretClient{Store: NewSecretStore(u.Now), Process: u}
	credentialtest.Run(t, func(*testing.T) credentialtest.Store { return store })
}

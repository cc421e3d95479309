package simulationtest

import (
	"context"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/billing/billingtest"
	"agents.example/controlplane/shared/organization"
)

// directory implements the parts of organization.Directory and organization.Counts that the suites use.
type directory struct {
	organization.Directory
	organization.Counts
	d *Database
	u *Direct
}

func (d directory) Ensure(_ context.Context, id string, _ organization.User) (time.Time, error) {
	d.u.Lock()
	defer d.u.Unlock()
	if _, ok := d.d.organizations[id]; !ok {
		d.d.Commits++
		d.d.organizations[id] = organizationDocument{
			Organization: organization.New(id, time.Now()), version: d.d.Commits,
		}
	}
	return time.Time{}, nil
}

func (d directory) Recount(_ context.Context, id string) (drift organization.Drift, found bool, err error) {
	d.u.Lock()
	defer d.u.Unlock()
	var used organization.Usage
	for _, found := range d.d.agents {
		if found.agent.OrganizationID == id {
			used = used.Plus(found.agent.HeldUsage())
		}
	}
	return drift, used != d.d.organizations[id].Usage, nil
}

func accountsFixture(*testing.T) billingtest.Fixture {
	d, u := NewDatabase(), &Direct{}
	return billingtest.Fixture{
		Processes: []billing.Store{Accounts{d, u}, Accounts{d, u}},
		Agents:    Agents{Database: d, Process: u, Nudger: &agenttest.Nudges{}},
		Directory: directory{d: d, u: u}, Counts: directory{d: d, u: u}, Entries: entriesOf(d, u),
	}
}

func TestAccounts_Conform(t *testing.T) { t.Parallel(); billingtest.Test(t, accountsFixture) }

func TestAccounts_ServeBilling(t *testing.T) {
	t.Parallel()
	billingtest.TestService(t, accountsFixture)
}

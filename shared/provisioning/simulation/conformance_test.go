package simulation

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/credential/credentialtest"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// unscheduled is a Stepper without a scheduler: every step happens.
type unscheduled struct{ mu *sync.Mutex }

func (u unscheduled) Step(_ context.Context, _ Service, _ string, do func() error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return do()
}

func (u unscheduled) Look(ctx context.Context, s Service, name string, do func() error) error {
	return u.Step(ctx, s, name, do)
}

func (unscheduled) Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

func fixture(*testing.T) agenttest.Fixture {
	d, u, nudges := NewDatabase(), unscheduled{&sync.Mutex{}}, &agenttest.Nudges{}
	return agenttest.Fixture{
		Store: Agents{d, u, nudges}, Log: log{d: d, u: u}, Records: WorkerStore{d, u}, Nudges: nudges,
		Organization: func(_ context.Context, id string) (organization.Organization, error) {
			u.mu.Lock()
			defer u.mu.Unlock()
			return d.Organization(id), nil
		},
		SetPlan: func(_ context.Context, id string, p plan.ID) error {
			u.mu.Lock()
			defer u.mu.Unlock()
			d.SetPlan(id, p)
			return nil
		},
		Entries: func(_ context.Context, id string) (entries []audit.Entry, err error) {
			u.mu.Lock()
			defer u.mu.Unlock()
			for _, e := range d.Entries {
				if e.OrganizationID == id {
					entries = append(entries, e.Entry)
				}
			}
			slices.SortFunc(entries, func(x, y audit.Entry) int { return x.CreatedAt.Compare(y.CreatedAt) })
			return entries, nil
		},
	}
}

// log implements the part of audit.Log that the suites use.
type log struct {
	audit.Log
	d *Database
	u unscheduled
}

func (l log) Append(_ context.Context, e audit.Entry) error {
	l.u.mu.Lock()
	defer l.u.mu.Unlock()
	if _, ok := l.d.Entries[e.ID]; !ok {
		l.d.Entries[e.ID] = Entry{Entry: e}
	}
	return nil
}

func TestAgents_Conform(t *testing.T) { t.Parallel(); agenttest.TestStore(t, fixture) }

func TestWorkerStore_Conforms(t *testing.T) { t.Parallel(); agenttest.TestWorkerStore(t, fixture) }

func TestSecretClient_Conforms(t *testing.T) {
	t.Parallel()
	u := unscheduled{&sync.Mutex{}}
	store := SecretClient{Store: NewSecretStore(u.Now), Process: u}
	credentialtest.Run(t, func(*testing.T) credentialtest.Store { return store })
}

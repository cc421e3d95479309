package metricstest_test

import (
	"context"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/metrics/metricstest"
)

func TestMemory_KeepsTheStoreContract(t *testing.T) {
	t.Parallel()
	metricstest.Test(t, func(*testing.T) metricstest.Fixture {
		m := &metricstest.Memory{}
		return metricstest.Fixture{
			Store: m, Records: m, Flush: func() {},
			Create: func(ctx context.Context) (agent.Agent, error) {
				return m.Put(agent.Agent{OrganizationID: call.From(ctx).Caller.OrganizationID}), nil
			},
			Change: func(ctx context.Context, id string) error {
				m.Put(agent.Agent{ID: id, OrganizationID: call.From(ctx).Caller.OrganizationID})
				return nil
			},
			Remove: func(_ context.Context, id string) error { m.Delete(id); return nil },
			Forget: func(_ context.Context, id string) error { m.Forget(id); return nil },
		}
	})
}

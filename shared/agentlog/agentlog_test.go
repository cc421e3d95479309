package agentlog_test

import (
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentlog/agentlogtest"
)

func TestCell_KeepsThePromisesOfItsPort(t *testing.T) {
	t.Parallel()
	agentlogtest.Run(t, func(*testing.T) agentlogtest.Fixture {
		c := agentlogtest.NewCell()
		a := agent.Agent{ID: "1", Cell: "cell-1"}
		return agentlogtest.Fixture{Source: c, Agent: a, Start: func(*testing.T) agentlogtest.Running {
			return c.Start(a.ID)
		}, Keep: func(*testing.T) { c.Keep(a.ID) }}
	})
}

package agents_test

import (
	"net/http"
	"testing"

	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
)

func TestCreate_ChoosesARegionOfTheDeployment(t *testing.T) {
	t.Parallel()
	const usual = agent.DefaultRegion
	europe, asia := agent.Cell{Name: "e", Region: "europe-west4"}, agent.Cell{Name: "a", Region: "asia-east1"}
	closed := agent.Cell{Name: "c", Region: "europe-west1", Closed: true}
	for name, c := range map[string]struct {
		cells  agent.Cells
		region string
		status int
		want   string
	}{
		"usual":          {cells: agent.Cells{europe, {Name: "u", Region: usual}}, status: 201, want: usual},
		"closed":         {cells: agent.Cells{europe, {Region: usual, Closed: true}}, status: 503},
		"elsewhere":      {cells: agent.Cells{closed, europe, asia}, status: 201, want: "europe-west4"},
		"a choice":       {cells: agent.Cells{europe, asia}, region: "asia-east1", status: 201, want: "asia-east1"},
		"a wrong choice": {cells: agent.Cells{europe}, region: usual, status: 422},
		"all closed":     {cells: agent.Cells{closed}, status: 503},
		"no cells":       {status: 503},
	} {
		b := backendtest.New(t)
		b.Cells = c.cells
		body := map[string]any{"name": "a", "resource_plan": "hobby"}
		if c.region != "" {
			body["region"] = c.region
		}
		res := b.CallNamed(t, "CreateAgent", functiontest.AsAdmin("org-1"), functiontest.Body(body))
		if res.Status != c.status {
			t.Errorf("%s: %d %s, want %d", name, res.Status, res.Body, c.status)
		} else if res.Status == http.StatusCreated && res.Text("region") != c.want {
			t.Errorf("%s: the agent is in %s, want %s", name, res.Text("region"), c.want)
		}
	}
}

package terraform_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/zclconf/go-cty/cty"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
)

// TestServices_ThatCreateAgentsKeepAnInstance follows the creation of an agent: the service that takes the call, and
// the one that brings the agent up.
func TestServices_ThatCreateAgentsKeepAnInstance(t *testing.T) {
	t.Parallel()
	everyTopology(t, func(t *testing.T, m *module) {
		serviceOf := m.local(t, "service_of").AsValueMap()
		want := []string{serviceOf["ReconcileAgent"].AsString()}
		if m.variable(t, "domain").AsString() == "" {
			want = append(want, "routes")
		} else {
			want = append(want, serviceOf["CreateAgent"].AsString())
		}
		for address, s := range m.resources(t, "google_cloud_run_v2_service") {
			kept, _ := instances(t, s)
			wanted := int64(0)
			if slices.ContainsFunc(want, func(service string) bool { return address == `this["`+service+`"]` }) {
				wanted = 1
			}
			if kept != wanted {
				t.Errorf("%s keeps %d instances, want one in %q only", address, kept, want)
			}
		}
	})
}

// TestScaling_IsTheOperatorsFirst overrides both limits of a service that would keep an instance.
func TestScaling_IsTheOperatorsFirst(t *testing.T) {
	t.Parallel()
	scaling := cty.MapVal(map[string]cty.Value{"worker": cty.ObjectVal(map[string]cty.Value{
		"min_instances": cty.NumberIntVal(0), "max_instances": cty.NumberIntVal(7),
	})})
	got := load(t, map[string]cty.Value{"scaling": scaling}).local(t, "scaling").GetAttr("worker")
	least, _ := got.GetAttr("min_instances").AsBigFloat().Int64()
	most, _ := got.GetAttr("max_instances").AsBigFloat().Int64()
	if least != 0 || most != 7 {
		t.Errorf("the service scales from %d to %d instances, want from 0 to 7", least, most)
	}
}

// TestPushes_EndBeforeTheirDeadlines compares the deadline of each subscription with what its worker needs, and with
// the timeout of the service that runs it.
func TestPushes_EndBeforeTheirDeadlines(t *testing.T) {
	t.Parallel()
	everyTopology(t, func(t *testing.T, m *module) {
		deadlines, timeouts := m.local(t, "ack_deadlines").AsValueMap(), m.local(t, "timeouts").AsValueMap()
		for _, w := range functions.Workers(functions.Dependencies{}) {
			deadline, _ := deadlines[w.Name].AsBigFloat().Int64()
			longest := int64(10)
			if w.Schedule != "" {
				longest = 60
			}
			if deadline < longest || w.Topic == function.AgentNudges && deadline > 60 {
				t.Errorf("a push to %s is repeated after %d s, want at least %d and at most 60 for nudges", w.Name,
					deadline, longest)
			}
			timeout := timeouts[m.local(t, "service_of").GetAttr(w.Name).AsString()].AsString()
			if timeout != "30s" && timeout != "600s" || timeout == "30s" && deadline > 30 {
				t.Errorf("the service of %s ends a push after %s, and Pub/Sub repeats it after %d s", w.Name, timeout,
					deadline)
			}
		}
	})
}

// TestCells_HaveRecordsOfTheirHostnames compares the names of a cell's DNS record and certificate with the hostnames
// that the control plane gives to its agents.
func TestCells_HaveRecordsOfTheirHostnames(t *testing.T) {
	t.Parallel()
	addresses := agent.Addresses{Domain: "agents.example.net", Scheme: "https"}
	for name, domain := range load(t, nil).local(t, "cell_domains").AsValueMap() {
		a := agent.Agent{ID: uuid.NewString(), Slug: "one", Cell: name}
		hostname := a.Hostname(addresses)
		if id, ok := agent.IDFromHostname(hostname, domain.AsString()); !ok || id != a.ID {
			t.Errorf("the hostname %s of an agent in %s is not below %s", hostname, name, domain.AsString())
		}
	}
}

//go:build unix

package terraform_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"agents.example/controlplane/terraform/cell"
)

// callersOf are the accounts that may call the API servers, by need. In each topology the service of all routes can
// answer GetAgentLogs.
func callersOf(topology string) map[string][]string {
	account := func(service string) string { return "prod-" + service + "@my-project.iam.gserviceaccount.com" }
	worker, routes := account("worker"), account("routes")
	switch topology {
	case "route":
		return map[string][]string{
			"cluster_apply": {reconciler}, "cluster_look": {account("check-drift"), observer},
			"cluster_collect": {collector}, "pod_logs": {logReader, routes},
		}
	case "group":
		return map[string][]string{
			"cluster_apply": {worker}, "cluster_look": {worker}, "cluster_collect": {worker},
			"pod_logs": {account("accounts"), routes},
		}
	default:
		return map[string][]string{
			"cluster_apply": {worker}, "cluster_look": {worker}, "cluster_collect": {worker}, "pod_logs": {routes},
		}
	}
}

// TestCells_GetTheObjectsThatTestsApply compares the output cell_objects, which apply-cells.sh applies, with what
// package cell renders for the tests on a real API server. It holds who may call the API servers in each topology.
func TestCells_GetTheObjectsThatTestsApply(t *testing.T) {
	t.Parallel()
	everyTopologyWith(t, map[string]cty.Value{"cells": cells("a1", "b1")}, func(t *testing.T, m *module) {
		objects, err := m.Output("cell_objects")
		if err != nil {
			t.Fatal(err)
		}
		image, agentImage := required()["image"].AsString(), required()["agent_image"].AsString()
		for _, name := range []string{"a1", "b1"} {
			values := cell.Values{
				Domain: name + ".agents.example.net", Image: image, AgentImage: agentImage,
				Callers: callersOf(m.variable(t, "topology").AsString()),
				Project: "my-project", NudgeTopic: "prod-agent-nudges", Environment: "prod",
				WarmAgents: 1, WarmMillicores: 260, WarmMiB: 1056,
				Address: "prod-" + name, CertificateMap: "prod-agents", SSLPolicy: "prod-edge",
			}
			if m.variable(t, "domain").AsString() != "" {
				values.SecurityPolicy = "prod-agents"
			}
			want, err := cell.Objects(values)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, decodeObjects(t, text(t, objects, name))); diff != "" {
				t.Errorf("objects of %s (-rendered by package cell +by Terraform):\n%s", name, diff)
			}
		}
	})
}

func decodeObjects(t *testing.T, documents string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(documents), 4096); ; {
		o := &unstructured.Unstructured{}
		if err := d.Decode(&o.Object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
}

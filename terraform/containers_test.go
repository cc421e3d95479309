package terraform_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"agents.example/controlplane/functions"
)

// container is what Cloud Run runs for a service.
type container struct{ Image, Command, Target, CPU, Memory, Idle, Boost, Concurrency, Timeout string }

// TestServices_RunTheBinaryOfTheirRole holds the container of every service. A log is followed for ten minutes, a push
// about one agent ends within 30 seconds, and a tick may take ten minutes.
func TestServices_RunTheBinaryOfTheirRole(t *testing.T) {
	t.Parallel()
	everyTopology(t, func(t *testing.T, m *module) {
		topology := m.variable(t, "topology").AsString()
		image := "image@sha256:" + strings.Repeat("0", 64)
		row := func(binary, target, timeout string) container {
			c := container{
				Image: image, Command: "/ko-app/" + binary, Target: target, CPU: "1", Memory: "256Mi", Idle: "true",
				Boost: "true", Concurrency: "80", Timeout: timeout,
			}
			if binary == "worker" {
				c.Memory, c.Concurrency = "512Mi", "40"
			}
			if topology != "route" {
				c.Target = "(none)"
			}
			return c
		}
		want := map[string]container{}
		service := func(name string) string { return m.local(t, "service_of").GetAttr(name).AsString() }
		for _, r := range functions.Routes(functions.Dependencies{}) {
			binary, timeout := string(r.Role), "60s"
			if r.Name == "GetAgentLogs" {
				timeout = "660s"
			}
			if c, ok := want[service(r.Name)]; !ok || c.Timeout == "60s" {
				want[service(r.Name)] = row(binary, r.Name, timeout)
			}
		}
		want["routes"] = row("accounts", "(none)", "660s")
		for _, w := range functions.Workers(functions.Dependencies{}) {
			timeout := "30s"
			if w.Schedule != "" {
				timeout = "600s"
			}
			if c, ok := want[service(w.Name)]; !ok || c.Timeout == "30s" {
				want[service(w.Name)] = row("worker", w.Name, timeout)
			}
		}
		got := map[string]container{}
		for address, s := range m.resources(t, "google_cloud_run_v2_service") {
			got[strings.TrimSuffix(strings.TrimPrefix(address, `this["`), `"]`)] = containerOf(t, s)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("containers (-want +got):\n%s", diff)
		}
	})
}

func containerOf(t *testing.T, service cty.Value) container {
	t.Helper()
	const first, resources = "template.0.containers.0.", "template.0.containers.0.resources.0."
	target, ok := variables(t, service)["FUNCTION_TARGET"]
	if !ok {
		target = "(none)"
	}
	return container{
		Image: text(t, service, first+"image"), Command: text(t, service, first+"command.0"), Target: target,
		CPU: text(t, service, resources+"limits.cpu"), Memory: text(t, service, resources+"limits.memory"),
		Idle: text(t, service, resources+"cpu_idle"), Boost: text(t, service, resources+"startup_cpu_boost"),
		Concurrency: text(t, service, "template.0.max_instance_request_concurrency"),
		Timeout:     text(t, service, "template.0.timeout"),
	}
}

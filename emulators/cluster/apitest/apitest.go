//go:build unix

// Package apitest checks that a Kubernetes API server behaves as this project relies on. It runs the same cases against
// the real server and the embedded one. It does not start a server, and it says nothing about a server's speed.
package apitest

import (
	"testing"

	"k8s.io/client-go/rest"
)

// Server is an API server with its controllers and simulated nodes, which nothing else uses.
type Server struct {
	// Config is an administrator's.
	Config *rest.Config
	// Kubeconfig is the path of the same configuration as a file. Without it, the cases of kubectl are skipped.
	Kubeconfig string
	// Embedded marks the embedded server, which skips the cases that it says it does not serve.
	Embedded bool
}

// Run runs all cases concurrently. Each uses a namespace that no other case uses.
func Run(t *testing.T, s Server) {
	t.Helper()
	admin := newClient(t, s.Config)
	for _, group := range []struct {
		name  string
		cases map[string]func(*space)
	}{
		{name: "verbs", cases: verbCases()},
		{name: "refused", cases: refusedCases()},
		{name: "options", cases: optionCases()},
		{name: "defaults", cases: defaultCases()},
		{name: "writes", cases: writeCases()},
		{name: "apply", cases: applyCases()},
		{name: "deletions", cases: deleteCases()},
		{name: "watches", cases: watchCases()},
		{name: "namespaces", cases: namespaceCases()},
		{name: "controllers", cases: controllerCases()},
		{name: "admission", cases: admissionCases()},
		{name: "policies", cases: policyCases()},
		{name: "access", cases: accessCases()},
		{name: "discovery", cases: discoveryCases()},
		{name: "clients", cases: clientCases()},
		{name: "kubectl", cases: kubectlCases()},
	} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for name, run := range group.cases {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					run(newSpace(t, s, admin))
				})
			}
		})
	}
}

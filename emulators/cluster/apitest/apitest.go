//go:build unix

// Package apitest checks that a Kubernetes API server behaves as this project relies on. It runs the same cases against
// the real server and the embedded one. It does not start a server, and it says nothing about a server's speed.
package apitest

import (
	"testing"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
)

// Server is an API server with its controllers and simulated nodes, which nothing else uses.
type Server struct {
	// Config is an administrator's.
	Config *rest.Config
	// Kubeconfig is the path of the same configuration as a file. Without it, the cases of kubectl are skipped.
	Kubeconfig string
	// Skipped are the cases that the server cannot pass, as "group/name", with the reasons.
	Skipped map[string]string
}

// width is how many cases run concurrently. They wait for the server most of the time, while -parallel, which is the
// number of processors by default, is for tests that compute.
const width = 12

// Run runs all cases. Each uses a namespace that no other case uses.
func Run(t *testing.T, s Server) {
	t.Helper()
	admin := newClient(t, s.Config)
	var running errgroup.Group
	running.SetLimit(width)
	for group, cases := range groups() {
		for name, run := range cases {
			running.Go(func() error {
				t.Run(group+"/"+name, func(t *testing.T) {
					if reason, ok := s.Skipped[group+"/"+name]; ok {
						t.Skip(reason)
					}
					run(newSpace(t, s, admin))
				})
				return nil
			})
		}
	}
	_ = running.Wait() // the cases report their failures themselves
}

// groups returns the cases by what they are about.
func groups() map[string]map[string]func(*space) {
	return map[string]map[string]func(*space){
		"verbs":       verbCases(),
		"refused":     refusedCases(),
		"options":     optionCases(),
		"defaults":    defaultCases(),
		"writes":      writeCases(),
		"apply":       applyCases(),
		"deletions":   deleteCases(),
		"watches":     watchCases(),
		"namespaces":  namespaceCases(),
		"controllers": controllerCases(),
		"admission":   admissionCases(),
		"policies":    policyCases(),
		"access":      accessCases(),
		"discovery":   discoveryCases(),
		"clients":     clientCases(),
		"snapshots":   snapshotCases(),
		"kubectl":     kubectlCases(),
	}
}

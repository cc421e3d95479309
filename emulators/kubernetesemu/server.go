//go:build unix

// Package kubernetesemu is an API server of Kubernetes in this process. It is not built yet.
package kubernetesemu

import (
	"context"
	"errors"
	"net"

	corev1 "k8s.io/api/core/v1"

	"agents.example/controlplane/emulators/cluster/pki"
)

// Options configure Start; all are required.
type Options struct {
	Dir          string           // state
	Listener     net.Listener     // of the API server, which closes it
	Certificates pki.Files        // of the API server and its users
	Kubelets     pki.KubeletFiles // to connect to kubelets
	// Refuse returns why a node may not take a pod, or the empty string.
	Refuse func(pod *corev1.Pod, node string) string
}

// Server is a running API server.
type Server struct{ done chan struct{} }

// Start returns an error.
func Start(context.Context, Options) (*Server, error) {
	return nil, errors.New("the embedded API server is not built yet")
}

// Done is closed when the server has ended, for any reason.
func (s *Server) Done() <-chan struct{} { return s.done }

// Close ends the server.
func (s *Server) Close() error { return nil }

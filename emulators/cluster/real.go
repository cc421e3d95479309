//go:build unix

package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"agents.example/controlplane/emulators/process"
	"agents.example/controlplane/emulators/simulator/realnode"
)

const (
	// stopGrace is longer than the 20 s that the real control plane takes at most.
	stopGrace = 30 * time.Second
	// maxSocketPath is shorter than the longest path of a Unix socket on any system.
	maxSocketPath = 100
	// extenderTimeout bounds the header of a request, which the scheduler sends immediately.
	extenderTimeout = 10 * time.Second
)

// startReal starts the real control plane and returns when its API server is ready.
func (s *starting) startReal(ctx context.Context) (*process.Process, error) {
	socket, err := s.listener.File()
	if err != nil {
		return nil, fmt.Errorf("pass the API server's socket on: %w", err)
	}
	// The child has its own. A second one would take connections after the child's end.
	defer func() { _, _ = socket.Close(), s.listener.Close() }()
	args := []string{"-dir", s.dir}
	extender, err := s.serveExtender(ctx)
	if err == nil && s.options.NodeSocket != "" {
		args, err = s.addRealNode(ctx, args)
	}
	if err != nil {
		return nil, err
	}
	args = append(args, "-scheduler-extender", extender)
	log := filepath.Join(s.dir, "cluster.log")
	child, err := process.Start(ctx, process.Options{
		Name: "the local Kubernetes cluster", Path: s.binary, Args: args, Files: []*os.File{socket},
		LogFile: log, Grace: stopGrace,
		Ready: func(context.Context) error { return readyLine(log) },
	})
	if err != nil {
		return nil, fmt.Errorf("%w\nSee also %s", err, filepath.Join(s.dir, "kubernetes.log"))
	}
	return child, nil
}

// serveExtender serves the scheduler's questions and returns the URL.
func (s *starting) serveExtender(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen for the scheduler: %w", err)
	}
	server := &http.Server{Handler: s.simulator.SchedulerExtender(), ReadHeaderTimeout: extenderTimeout}
	s.parts.run("scheduler's extender", func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { _ = server.Close() })()
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	return "http://" + listener.Addr().String(), nil
}

// addRealNode makes the API server trust the node that runs containers, and reach it through a proxy of this process.
func (s *starting) addRealNode(ctx context.Context, args []string) ([]string, error) {
	trust, err := realnode.WriteFiles(s.dir, s.certificates, s.kubeletFiles)
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(s.dir, "egress.sock")
	if len(socket) > maxSocketPath {
		return nil, fmt.Errorf("the path %s is too long for a Unix socket; use a shorter state directory", socket)
	}
	proxy, err := realnode.Listen(ctx, socket, s.options.NodeSocket)
	if err != nil {
		return nil, err
	}
	s.parts.run("proxy to the node that runs containers", proxy.Serve)
	return append(args, "-client-ca", trust.ClientCA, "-kubelet-ca", trust.KubeletCA, "-egress", socket), nil
}

// readyLine looks for the line that the child prints when it is ready.
func readyLine(log string) error {
	file, err := os.Open(log)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if lines.Text() == "ready" {
			return nil
		}
	}
	return errors.New("the cluster is not ready yet")
}

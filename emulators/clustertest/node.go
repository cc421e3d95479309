//go:build unix

package clustertest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/node"
	"agents.example/controlplane/shared/testtier"
)

// RequireNode skips a test where a real node cannot run, and outside the full tier. It builds the node's programs and
// the real API server if they are not there.
func RequireNode(t *testing.T) {
	t.Helper()
	testtier.RequireFull(t, "needs a real node")
	if err := node.CheckUser(); err != nil {
		t.Skip(err)
	}
	testtier.RequireBuilt(t, node.BuildTime, node.Build) // before the cluster, which has packages in common
	RequireKind(t, cluster.Real)
	if err := node.Supported(t.Context(), nil); errors.Is(err, node.ErrUnsupported) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
}

// Runc returns the path of runc, or skips a test where it is not installed.
func Runc(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("runc")
	if err != nil {
		t.Skip("runc is not installed")
	}
	return path
}

// NodeDir returns a directory for a node, whose path is short enough for Unix sockets. It is removed with the test.
func NodeDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "node-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// StartNode starts a cluster and its node for one test, and closes both with the test. The options need neither a
// directory nor a cluster.
func StartNode(t *testing.T, o node.Options) (*cluster.Cluster, *node.Node) {
	t.Helper()
	RequireNode(t)
	o.Dir = filepath.Join(NodeDir(t), "node")
	c := Start(t, cluster.Options{Kind: cluster.Real, NodeSocket: node.Socket(o.Dir)})
	o.Cluster = c
	n, err := node.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, n
}

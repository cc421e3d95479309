//go:build unix

package cluster_test

import (
	"strings"
	"syscall"
	"testing"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/clustertest"
)

func TestKind_RoundTripsAsText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]cluster.Kind{
		"": cluster.Embedded, "embedded": cluster.Embedded, "real": cluster.Real,
	} {
		var kind cluster.Kind
		if err := kind.UnmarshalText([]byte(text)); err != nil || kind != want {
			t.Errorf("kind of %q = %q, %v; want %q", text, kind, err, want)
		}
		if back, err := kind.MarshalText(); err != nil || string(back) != string(want) {
			t.Errorf("text of %q = %q, %v", kind, back, err)
		}
	}
	if err := new(cluster.Kind).UnmarshalText([]byte("fake")); err == nil {
		t.Error("the kind fake is accepted")
	}
}

func TestStart_RefusesOptionsThatDoNotFit(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]cluster.Options{
		"Dir is empty":  {},
		"unknown kind":  {Dir: t.TempDir(), Kind: "fake"},
		"needs a real ": {Dir: t.TempDir(), NodeSocket: "node.sock"},
	} {
		if _, err := cluster.Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
}

func TestCluster_EndsWithItsControlPlane(t *testing.T) {
	t.Parallel()
	clustertest.RequireKind(t, cluster.Real)
	c, err := cluster.Start(t.Context(), cluster.Options{Kind: cluster.Real, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(c.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if err := c.Close(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("error of Close = %v, want how the control plane ended", err)
	}
}

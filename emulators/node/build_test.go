//go:build linux

package node

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"agents.example/controlplane/emulators/buildcache"
	"agents.example/controlplane/emulators/gobuild"
	"agents.example/controlplane/shared/testtier"
)

func TestPrograms_AreMainPackagesOfTheirModules(t *testing.T) {
	t.Parallel()
	testtier.RequireFull(t, "downloads the modules of the node's programs")
	all, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"containerd", "containerd-shim-runc-v2", "containerd-shim-runsc-v1", "host-local", "kubelet", "node", "pause",
		"ptp", "runsc",
	}
	var files []string
	for _, p := range all {
		files = append(files, p.File)
		list := exec.CommandContext(t.Context(), "go", "list", "-find", "-f", "{{.Name}}", p.Package)
		list.Dir, list.Env = p.Module, gobuild.Environment()
		var progress bytes.Buffer // says which modules it downloads
		list.Stderr = &progress
		if name, err := list.Output(); err != nil || strings.TrimSpace(string(name)) != "main" {
			t.Errorf("package of %s = %q (%v), want a main package\n%s", p.File, name, err, &progress)
		}
	}
	if slices.Sort(files); !slices.Equal(files, want) {
		t.Errorf("programs = %q, want %q", files, want)
	}
}

// TestPrograms_ShareTheClustersPackages compares flags that decide whether a package is compiled again.
func TestPrograms_ShareTheClustersPackages(t *testing.T) {
	t.Parallel()
	all, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(p buildcache.Program) bool { return p.File == "kubelet" })
	if !slices.Equal(all[i].Flags, buildcache.KubernetesFlags()) {
		t.Errorf("flags of the kubelet = %q, want the cluster's %q", all[i].Flags, buildcache.KubernetesFlags())
	}
}

func TestCheckSystem_NeedsLinux(t *testing.T) {
	t.Parallel()
	if err := checkSystem("linux"); err != nil {
		t.Errorf("Linux: error = %v, want none", err)
	}
	if err := checkSystem("darwin"); err == nil || !strings.Contains(err.Error(), "this system is darwin") {
		t.Errorf("darwin: error = %v, want one that names the system", err)
	}
}

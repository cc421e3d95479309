package cgroups_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"agents.example/controlplane/emulators/containers/cgroups"
)

// child makes the test binary make a group, and wait until it is killed or its input ends.
const child = "CGROUPS_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(child) != "" {
		if _, err := cgroups.Make(); err != nil {
			panic(err)
		}
		_, _ = os.Stdout.WriteString("made\n")
		// Without other goroutines, select {} is a deadlock, which ends the process.
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	os.Exit(m.Run())
}

func make(t *testing.T) *cgroups.Group {
	t.Helper()
	g, err := cgroups.Make()
	if err != nil {
		t.Skip("this system makes no control groups: ", err)
	}
	return g
}

func TestGroup_IsRemovedWithItsProcesses(t *testing.T) {
	g := make(t)
	sleeper := exec.CommandContext(t.Context(), "sleep", "600")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	if err := g.Enter(sleeper.Process.Pid); err != nil {
		t.Error(err)
	}
	for _, dir := range g.Hierarchies {
		if text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs")); err != nil || len(text) == 0 {
			t.Errorf("%s has the processes %q, %v; want one", dir, text, err)
		}
		if err := os.MkdirAll(filepath.Join(dir, "pods", "pod"), 0o755); err != nil {
			t.Error(err)
		}
	}
	if err := sleeper.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = sleeper.Wait() // reports the kill
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
	checkGone(t, g)
}

func checkGone(t *testing.T, g *cgroups.Group) {
	t.Helper()
	for _, dir := range g.Hierarchies {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", dir, err)
		}
	}
}

// TestMake_RemovesGroupsOfDeadProcesses kills a process that had a group, without waiting for it: it is a zombie.
func TestMake_RemovesGroupsOfDeadProcesses(t *testing.T) {
	g := make(t)
	defer g.Remove() //nolint:errcheck // fails in the test of that name
	other := exec.CommandContext(t.Context(), os.Args[0])
	other.Env = append(os.Environ(), child+"=1")
	if _, err := other.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Wait() //nolint:errcheck // it was killed
	if _, err := out.Read([]byte("made\n")); err != nil {
		t.Fatal(err)
	}
	for _, alive := range []bool{true, false} {
		if !alive {
			if err := other.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_, _ = out.Read([]byte{0}) // the end, when the process is dead
		}
		if err := g.Remove(); err != nil {
			t.Fatal(err)
		}
		g = make(t)
		for _, dir := range g.Hierarchies {
			group := filepath.Join(filepath.Dir(dir), "agents-node-"+strconv.Itoa(other.Process.Pid))
			if _, err := os.Stat(group); (err == nil) != alive {
				t.Errorf("%s: %v while its process is alive: %t", group, err, alive)
			}
		}
	}
}

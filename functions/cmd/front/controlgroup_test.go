package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// controlGroup limits the memory and the CPU of processes, as the kubelet does for a container.
type controlGroup struct {
	memory, cpu string // directories, which are the same with version 2
	peak, kills string // files in memory
}

const controlGroups = "/sys/fs/cgroup"

// newControlGroup returns a group, which ends with the test. It skips the test if this machine lets it create none.
func newControlGroup(t *testing.T, name string, memoryMiB, millicores int64) controlGroup {
	t.Helper()
	name = fmt.Sprintf("agents-test-%d-%s", os.Getpid(), name)
	unified := filepath.Join(controlGroups, "cgroup.controllers")
	g := controlGroup{
		memory: filepath.Join(controlGroups, "memory", name), cpu: filepath.Join(controlGroups, "cpu", name),
		peak: "memory.max_usage_in_bytes", kills: "memory.oom_control",
	}
	quota := strconv.FormatInt(millicores*100, 10) // of a period of 100,000 microseconds
	settings := [][3]string{
		{g.memory, "memory.limit_in_bytes", strconv.FormatInt(memoryMiB<<20, 10)},
		{g.cpu, "cpu.cfs_period_us", "100000"},
		{g.cpu, "cpu.cfs_quota_us", quota},
	}
	if _, err := os.Stat(unified); !errors.Is(err, fs.ErrNotExist) {
		g.memory, g.peak, g.kills = filepath.Join(controlGroups, name), "memory.peak", "memory.events"
		g.cpu = g.memory
		settings = [][3]string{
			{controlGroups, "cgroup.subtree_control", "+memory +cpu"},
			{g.memory, "memory.max", strconv.FormatInt(memoryMiB<<20, 10)},
			{g.cpu, "cpu.max", quota + " 100000"},
		}
	}
	for _, dir := range []string{g.memory, g.cpu} {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Skipf("this machine lets the test create no control group: %v", err)
		}
		t.Cleanup(func() { _ = os.Remove(dir) }) // the second time with version 2, it is gone
	}
	for _, s := range settings {
		if err := os.WriteFile(filepath.Join(s[0], s[1]), []byte(s[2]), 0o644); err != nil {
			t.Skipf("this machine lets the test limit no control group: %v", err)
		}
	}
	return g
}

// start starts a program in the group. The test ends it.
func (g controlGroup) start(t *testing.T, log string, env []string, program string) *exec.Cmd {
	t.Helper()
	file, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // the process has its own
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c",
		`for group in "$1" "$2"; do echo $$ >"$group/cgroup.procs" || exit; done; exec "$3"`,
		"sh", g.memory, g.cpu, program)
	cmd.Env, cmd.Stderr = env, file
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // gone if it was killed
		_ = cmd.Wait()
		for range 100 { // the group is busy for a moment
			if os.Remove(g.memory) == nil {
				break
			}
			<-time.After(10 * time.Millisecond)
		}
	})
	return cmd
}

var oomKills = regexp.MustCompile(`(?m)^oom_kill (\d+)$`)

// use returns the most memory that the group had since it began, and how many of its processes were killed.
func (g controlGroup) use(t *testing.T) (peakMiB float64, kills int) {
	t.Helper()
	peak, err := os.ReadFile(filepath.Join(g.memory, g.peak))
	if err != nil {
		t.Fatal(err)
	}
	bytes, err := strconv.ParseFloat(string(peak[:len(peak)-1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	events, err := os.ReadFile(filepath.Join(g.memory, g.kills))
	if err != nil {
		t.Fatal(err)
	}
	match := oomKills.FindSubmatch(events)
	if match == nil {
		t.Fatalf("%s has no oom_kill: %s", g.kills, events)
	}
	kills, _ = strconv.Atoi(string(match[1]))
	return bytes / (1 << 20), kills
}

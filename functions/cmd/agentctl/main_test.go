package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"agents.example/controlplane/shared/testtier"
)

// maxInitAllocations is a little above what the packages of the tool allocate before main. Shell completion runs the
// tool on every press of the key, so a start that grows is felt. Typical reasons are a regular expression that is
// compiled at package level, and a new dependency.
const maxInitAllocations = 1250

// TestStart_AllocatesLittleBeforeMain counts instead of measuring time, so that the result is exact on a busy machine.
func TestStart_AllocatesLittleBeforeMain(t *testing.T) {
	t.Parallel()
	testtier.RequireFull(t, "builds the tool")
	binary := filepath.Join(t.TempDir(), "agentctl")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), binary, "--version")
	cmd.Env = append(cmd.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("agentctl --version: %v\n%s", err, out)
	}
	total := 0
	for _, row := range regexp.MustCompile(`(?m)^init .* (\d+) allocs$`).FindAllStringSubmatch(string(out), -1) {
		count, err := strconv.Atoi(row[1])
		if err != nil {
			t.Fatal(err)
		}
		total += count
	}
	if total == 0 || total > maxInitAllocations {
		t.Errorf("%d allocations before main, want 1 to %d:\n%s", total, maxInitAllocations, out)
	}
}

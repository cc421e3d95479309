package agentctl_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"agents.example/controlplane/functions/agentctl"
)

// TestReadme_QuickStartRuns runs the commands of the quick start, except the sign-in, at the real routes.
func TestReadme_QuickStartRuns(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Quick start\n")
	_, block, _ := strings.Cut(section, "```sh\n")
	block, _, _ = strings.Cut(block, "```")
	a := serve(t)
	defer a.onNudge(t, func(id string) { a.Reconcile(t, id) })() // ends before the test's context
	ran := 0
	for line := range strings.Lines(block) {
		args := strings.Fields(line)[1:]
		if args[0] == "login" || args[1] == "logs" {
			continue // they need a browser and a cluster
		}
		ran++
		if got := a.admin().run(t, args...); got.Code != agentctl.ExitOK {
			t.Errorf("%s: exit code %d: %s", line, got.Code, got.Stderr)
		}
	}
	if ran < 3 {
		t.Errorf("the quick start has only %d commands that run here:\n%s", ran, block)
	}
}

// TestReadme_ListsTheExitCodes compares the table with the tool's own help.
func TestReadme_ListsTheExitCodes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	help := tool{}.run(t, "help", "exit-codes").ok(t).Stdout
	codes := regexp.MustCompile(`(?m)^ +(\d+)  (.+)$`).FindAllStringSubmatch(help, -1)
	if len(codes) < 10 {
		t.Fatalf("the help lists only %d codes:\n%s", len(codes), help)
	}
	for _, code := range codes {
		if row := "| " + code[1] + " | " + code[2] + " |"; !strings.Contains(string(text), row) {
			t.Errorf("README.md has no row %q", row)
		}
	}
}

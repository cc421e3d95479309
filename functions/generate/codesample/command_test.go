package codesample_test

import (
	"io"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/shell"

	"agents.example/controlplane/functions/agentctl"
)

// TestSamples_OfAgentctlParse reads the command lines as the tool does: each names a command and flags that exist, and
// has as many arguments as the command takes.
func TestSamples_OfAgentctlParse(t *testing.T) {
	t.Parallel()
	all := samples(t, "agentctl")
	if len(all) < 30 {
		t.Errorf("got %d samples, want one for each operation that a command is for", len(all))
	}
	for id, lines := range all {
		for line := range strings.SplitSeq(lines, "\n") {
			args, err := shell.Fields(line, func(name string) string { return "value-of-" + name })
			if err != nil {
				t.Errorf("%s: %s: %v", id, line, err)
				continue
			}
			root := (&agentctl.App{Stdout: io.Discard, Stderr: io.Discard}).Root()
			c, rest, err := root.Find(args[1:])
			if err != nil || c.Annotations["operation"] != id {
				t.Errorf("%s: %s is for %q (%v)", id, line, c.Annotations["operation"], err)
				continue
			}
			if err := c.ParseFlags(rest); err != nil {
				t.Errorf("%s: %s: %v", id, line, err)
			}
			if err := c.ValidateArgs(c.Flags().Args()); err != nil {
				t.Errorf("%s: %s: %v", id, line, err)
			}
			if err := c.ValidateRequiredFlags(); err != nil {
				t.Errorf("%s: %s: %v", id, line, err)
			}
		}
	}
}

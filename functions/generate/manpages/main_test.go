package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"agents.example/controlplane/functions/agentctl"
)

func TestRun_WritesOnePageForEachCommand(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "man1")
	if err := run([]string{dir}); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	pages := 0
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		if c.Name() == "completion" || c.HasParent() && (!c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand()) {
			return
		}
		pages++
		name := strings.ReplaceAll(c.CommandPath(), " ", "-")
		page, err := os.ReadFile(filepath.Join(dir, name+".1"))
		if err != nil {
			t.Error(err)
		}
		for _, part := range []string{".TH ", ".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS", c.Name()} {
			if !bytes.Contains(page, []byte(part)) {
				t.Errorf("the page of %s has no %q", c.CommandPath(), part)
			}
		}
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check((&agentctl.App{}).Root())
	if pages != len(written) || pages < 40 {
		t.Errorf("%d pages for %d commands", len(written), pages)
	}
}

func TestRun_NeedsOneFolder(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"a", "b"}} {
		if err := run(args); err == nil {
			t.Errorf("run(%q) succeeds", args)
		}
	}
}

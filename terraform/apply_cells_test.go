//go:build unix

package terraform_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestApplyCells_AppliesObjectsAndWaitsForThem runs the script for two cells, with a kubectl that fails.
func TestApplyCells_AppliesObjectsAndWaitsForThem(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3, which the script runs, is not installed")
	}
	outputs, err := json.Marshal(map[string]any{
		"clusters": map[string]any{"value": map[string]any{
			"a1": map[string]string{"name": "test-a1", "region": "us-central1", "project": "cells-1"},
			"b1": map[string]string{"name": "test-b1", "region": "europe-west4"},
		}},
		"cell_objects": map[string]any{"value": map[string]string{"a1": "objects of a1", "b1": "objects of b1"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		fails   string // arguments of kubectl, and how often they fail
		times   string
		applies int
		ends    bool
	}{
		"all is well":               {fails: "none", applies: 2},
		"resources are unknown yet": {fails: "apply", times: "3", applies: 5},
		"objects are refused":       {fails: "apply", times: "99", applies: 30, ends: true},
		"a router does not start":   {fails: "deployment/agent-router", times: "1", applies: 1, ends: true},
		"a Gateway has no address":  {fails: "condition=Programmed", times: "1", applies: 1, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, 1)
			p.answer(t, "outputs.json", string(outputs))
			p.write(t, filepath.Join(p.bin, "kubectl"), `#!/bin/sh -e
echo "$*" | sed 's/-f .*//' >>"$GCLOUD_STATE/kubectl"
case "$*" in apply*) cat "${*##* }" >>"$GCLOUD_STATE/kubectl"; echo >>"$GCLOUD_STATE/kubectl" ;; esac
case "$*" in
	*`+row.fails+`*) echo >>"$GCLOUD_STATE/failures"; [ "$(wc -l <"$GCLOUD_STATE/failures")" -gt "`+row.times+`" ] ;;
esac
`, 0o755)
			file := filepath.Join(p.state, "outputs.json")
			calls, out, err := p.run(t.Context(), t, "apply-cells.sh", file, "project-1")
			if (err != nil) != row.ends {
				t.Fatalf("error = %v, want one: %t\n%s", err, row.ends, out)
			}
			did, err := os.ReadFile(filepath.Join(p.state, "kubectl"))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Count(string(did), "apply --server-side"); got != row.applies {
				t.Errorf("%d applies, want %d:\n%s", got, row.applies, did)
			}
			if row.ends {
				return
			}
			for cell, place := range map[string]string{
				"a1": "--project=cells-1 --region=us-central1", "b1": "--project=project-1 --region=europe-west4",
			} {
				want := "get-credentials test-" + cell + " " + place + " --dns-endpoint"
				if !strings.Contains(calls, want) {
					t.Errorf("no call %s in:\n%s", want, calls)
				}
				if !strings.Contains(string(did), "objects of "+cell) {
					t.Errorf("does not apply the objects of %s:\n%s", cell, did)
				}
			}
			for _, want := range []string{"deployment/agent-router", "deployment/agent-notifier", "gateway/agents"} {
				if strings.Count(string(did), want) != 2 {
					t.Errorf("does not wait for %s in each cell:\n%s", want, did)
				}
			}
		})
	}
}

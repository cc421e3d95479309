package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const module = "agents.example/controlplane"

// TestSource_BuildsWithoutDownloads builds the command from the packages that the build of a deployment gets, without
// the go.mod of this repository.
func TestSource_BuildsWithoutDownloads(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	ignore, err := os.ReadFile(filepath.Join(root, "terraform/build/smoke.ignore"))
	if err != nil {
		t.Fatal(err)
	}
	source := t.TempDir()
	for dir, files := range ownPackages(t) {
		lines := "\n" + string(ignore)
		if !strings.Contains(lines, "\n!/"+dir+"\n") {
			t.Errorf("terraform/build/smoke.ignore excludes %s, which the smoke test imports: include it", dir)
		}
		if err := os.MkdirAll(filepath.Join(source, dir), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			text, err := os.ReadFile(filepath.Join(root, dir, name))
			if err == nil {
				err = os.WriteFile(filepath.Join(source, dir, name), text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, args := range [][]string{{"mod", "init", module}, {"build", "-o", os.DevNull, "./terraform/smoke"}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = source
		cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// ownPackages returns the files of the module's packages that the command is built from, by directory.
func ownPackages(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,GoFiles", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	found := map[string][]string{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			GoFiles    []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			t.Fatal(err)
		}
		if dir, own := strings.CutPrefix(p.ImportPath, module+"/"); own {
			found[dir] = p.GoFiles
		}
	}
}

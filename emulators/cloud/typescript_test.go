package cloud_test

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// testTypeScriptClient tests the TypeScript client against the cloud. It works in a copy of the client's folder, so
// that it installs nothing there.
func testTypeScriptClient(t *testing.T, d deployment) {
	for _, command := range []string{"node", "npm"} {
		if _, err := exec.LookPath(command); err != nil {
			t.Skipf("the TypeScript client is not tested: %s is not installed", command)
		}
	}
	root := t.TempDir()
	dir := filepath.Join(root, "shared/client/typescript")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	copyPackage(t, "../../shared/client/typescript", dir)
	if err := os.CopyFS(filepath.Join(root, ".github"), os.DirFS("../../.github")); err != nil {
		t.Fatal(err)
	}
	if out, err := d.npm(t, dir, "ci", "--ignore-scripts", "--prefer-offline"); err != nil {
		if strings.Contains(out, "EUSAGE") || strings.Contains(out, "EINTEGRITY") {
			t.Fatalf("the lock file does not fit the package: %v\n%s", err, out)
		}
		t.Skipf("the TypeScript client is not tested: its dependencies cannot be installed: %v\n%s", err, out)
	}
	if out, err := d.npm(t, dir, "test"); err != nil || !strings.Contains(out, "skipped 0\n") {
		t.Errorf("tests of the TypeScript client: %v, want success and none skipped\n%s", err, out)
	}
}

// npm runs npm in a package whose tests may call the cloud, and returns its output.
func (d deployment) npm(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", args...)
	cmd.Dir, cmd.WaitDelay = dir, 10*time.Second
	cmd.Env = append(cmd.Environ(), "AGENTS_BASE_URL="+d.Ready.BaseURL, "AGENTS_API_KEY="+d.Ready.APIKey)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// copyPackage copies a package of npm without what is installed and built.
func copyPackage(t *testing.T, from, to string) {
	t.Helper()
	made := map[string]bool{"node_modules": true, "dist": true, "build": true}
	err := fs.WalkDir(os.DirFS(from), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if made[path] {
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, path), 0o700)
		}
		b, err := os.ReadFile(filepath.Join(from, path))
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, path), b, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

//go:build unix

package dataplane

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Image is the local name of the control plane's image. Pods run its binaries as processes.
const Image = "agents.localhost/platform@sha256:" + "0000000000000000000000000000000000000000000000000000000000000000"

// commands is the path of the binaries' packages.
const commands = "agents.example/controlplane/functions/cmd/"

// Build builds the binaries that run in agents' pods, and returns their directory in the user's cache. go build leaves
// a binary alone that is up to date. Concurrent callers, in any process, wait for one build.
func Build(ctx context.Context) (dir string, err error) {
	return BuildPackages(ctx, commands+"front", commands+"sampleagent")
}

// BuildPackages builds programs of this module into a directory of the user's cache, which can be an image of
// cluster.Options.
func BuildPackages(ctx context.Context, packages ...string) (dir string, err error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a directory for the agents' binaries: %w; set HOME or XDG_CACHE_HOME", err)
	}
	// Each checkout has a directory, so that two of them do not overwrite each other's binaries.
	sum := sha256.Sum256([]byte(string(root) + strings.Join(packages, " ")))
	dir = filepath.Join(cache, "agents-controlplane", "images", hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("create the directory of the agents' binaries: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", fmt.Errorf("lock the directory of the agents' binaries: %w", err)
	}
	defer lock.Close() //nolint:errcheck // closing releases the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock the directory of the agents' binaries: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{
		"build", "-buildvcs=false", "-o", dir + string(os.PathSeparator),
	}, packages...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", strings.Join(packages, " "), err, out)
	}
	return dir, nil
}

//go:build unix

package gobuild

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Programs compiles main packages of this module into a directory of the user's cache. go build leaves a program alone
// that is up to date. Concurrent callers, in any process, wait for one build. Name names the programs in what is
// written to progress.
func Programs(ctx context.Context, progress io.Writer, name string, packages ...string) (dir string, err error) {
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}")
	list.Env = Environment()
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	root := strings.TrimSpace(string(out))
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a directory for %s: %w; set HOME or XDG_CACHE_HOME", name, err)
	}
	// Each checkout has a directory, so that two of them do not overwrite each other's programs.
	sum := sha256.Sum256([]byte(root + " " + strings.Join(packages, " ")))
	dir = filepath.Join(cache, "agents-controlplane", "programs", hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("create the directory of %s: %w", name, err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", fmt.Errorf("lock the directory of %s: %w", name, err)
	}
	defer lock.Close() //nolint:errcheck // closing releases the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock the directory of %s: %w", name, err)
	}
	b := Build{
		Name: name, Dir: root, Packages: packages, Target: dir + string(os.PathSeparator),
		Flags: append(Flags(), "-ldflags=-s -w"), Progress: NewProgress(progress),
		Cold: slices.ContainsFunc(packages, func(p string) bool { return !exists(filepath.Join(dir, path.Base(p))) }),
	}
	defer b.Progress.Start()()
	return dir, b.Run(ctx)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

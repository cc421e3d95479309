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
// written to progress. The programs share compiled packages with the tests.
func Programs(ctx context.Context, progress io.Writer, name string, packages ...string) (dir string, err error) {
	return programs(ctx, Build{Name: name, Packages: packages, Flags: Flags(), LikeTests: true}, progress)
}

// imageTags are those of the control plane's image.
const imageTags = "disable_grpc_modules,grpcnotrace"

// StaticPrograms is like Programs for programs of images, which have no libraries, with the tags of the control plane's
// image. It compiles those above gRPC again, and most where there is a C compiler.
func StaticPrograms(ctx context.Context, progress io.Writer, name string, packages ...string) (dir string, err error) {
	return programs(ctx, Build{Name: name, Packages: packages, Flags: flags(imageTags)}, progress)
}

func programs(ctx context.Context, b Build, progress io.Writer) (dir string, err error) {
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}")
	list.Env = Environment()
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	root := strings.TrimSpace(string(out))
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a directory for %s: %w; set HOME or XDG_CACHE_HOME", b.Name, err)
	}
	// Each checkout has a directory, so that two of them do not overwrite each other's programs.
	sum := sha256.Sum256(fmt.Append(nil, root, b.LikeTests, b.Packages))
	dir = filepath.Join(cache, "agents-controlplane", "programs", hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("create the directory of %s: %w", b.Name, err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", fmt.Errorf("lock the directory of %s: %w", b.Name, err)
	}
	defer lock.Close() //nolint:errcheck // closing releases the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock the directory of %s: %w", b.Name, err)
	}
	b.Dir, b.Target = root, dir+string(os.PathSeparator)
	b.Flags, b.Progress = append(b.Flags, "-ldflags=-s -w"), NewProgress(progress)
	b.Cold = slices.ContainsFunc(b.Packages, func(p string) bool { return !exists(filepath.Join(dir, path.Base(p))) })
	defer b.Progress.Start()()
	return dir, b.Run(ctx)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

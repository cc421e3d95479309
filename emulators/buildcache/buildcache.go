//go:build unix

// Package buildcache builds programs of this repository's nested modules once for each state of their sources, and
// keeps them in the user's cache directory. It does not start them.
package buildcache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"agents.example/controlplane/emulators/gobuild"
)

const (
	// partSuffix ends the name of an incomplete result.
	partSuffix = ".part"
	// keptResults is how many results stay in the cache: one for these sources and one for another branch.
	keptResults = 2
	// lockPoll is how often a process that waits for another's build tries the lock.
	lockPoll = 200 * time.Millisecond
)

// Program is a main package of a nested module.
type Program struct {
	Module  string   // directory
	Package string   // main package, as go build takes it in the module
	File    string   // name of the program in the directory of a Builder's programs; empty if it is the only one
	Flags   []string // of go build
	// Sources are the files and directories of the module that the program is made of; empty is the whole module.
	Sources []string
}

// Builder builds programs: one as a file, several as a directory.
type Builder struct {
	Name     string // names the programs, such as "the local Kubernetes cluster"
	Prefix   string // begins the name of every result in the cache, such as "kubernetes-"
	Programs []Program
	Cache    string // directory of results
	// FirstCache is the compiler's cache of the first build, or empty. It is removed after that build, because most
	// users never change the programs, and their packages take 2 GB. The builds of those who do use and keep the user's
	// cache.
	FirstCache string
	// KeepFirstCache reports whether another build needs the packages in FirstCache; nil means no.
	KeepFirstCache func() (bool, error)
	// ColdCPU is the CPU time that a build from nothing takes on a busy machine.
	ColdCPU  time.Duration
	Progress *gobuild.Progress
}

// warmBuild is how long a build takes with the packages of an earlier one in Go's build cache: a few packages and the
// linker.
const warmBuild = 2 * time.Minute

// Estimate estimates how long Build will take on this machine. It is 0 if the result is there already.
func (b *Builder) Estimate() (time.Duration, error) { return b.estimate(runtime.NumCPU()) }

func (b *Builder) estimate(cpus int) (time.Duration, error) {
	result, err := b.result()
	if err != nil || markUsed(result) {
		return 0, err
	}
	if b.builtBefore() > 1 { // the packages of the first build are not kept
		return warmBuild, nil
	}
	return max(warmBuild, b.ColdCPU/time.Duration(cpus)), nil
}

// builtBefore returns the number of results of other sources in the cache.
func (b *Builder) builtBefore() int {
	names, _ := filepath.Glob(filepath.Join(b.Cache, b.Prefix+"*")) // the pattern is valid
	return len(slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, partSuffix) }))
}

// result returns the path of the result of the present sources, which need not exist.
func (b *Builder) result() (string, error) {
	hash, err := sourceHash(b.Programs)
	return filepath.Join(b.Cache, b.Prefix+hash), err
}

// Build returns the path of the program, or of the directory of several, and builds what is not there. Concurrent
// callers, in any process, wait for one build. An interrupted build continues where it stopped.
func (b *Builder) Build(ctx context.Context) (string, error) {
	result, err := b.result()
	if err != nil || markUsed(result) {
		return result, err
	}
	if err := os.MkdirAll(b.Cache, 0o755); err != nil {
		return "", fmt.Errorf("create the directory for %s: %w", b.Name, err)
	}
	defer b.Progress.Start()()
	unlock, err := b.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if markUsed(result) { // another process has built it
		return result, nil
	}
	if err := b.compileFirst(ctx, result+partSuffix); err != nil {
		return "", err
	}
	if err := os.Rename(result+partSuffix, result); err != nil {
		return "", fmt.Errorf("install %s: %w", b.Name, err)
	}
	markUsed(result)
	if err := b.prune(); err != nil {
		b.Progress.WriteLine("Old programs were not removed: " + err.Error()) // the new one works
	}
	return result, nil
}

// compileFirst compiles the result to target. It removes the compiler's cache of a first build.
func (b *Builder) compileFirst(ctx context.Context, target string) error {
	var cache string
	if b.builtBefore() == 0 {
		cache = b.FirstCache
	}
	if err := b.compile(ctx, target, cache); err != nil || cache == "" {
		return err
	}
	if b.KeepFirstCache != nil {
		if keep, err := b.KeepFirstCache(); keep || err != nil {
			return err
		}
	}
	return os.RemoveAll(cache)
}

// compile compiles the programs to target, except those that an earlier or interrupted build compiled from the same
// sources.
func (b *Builder) compile(ctx context.Context, target, cache string) error {
	for i, p := range b.Programs {
		compile := gobuild.Build{
			Name: b.Name, Dir: p.Module, Packages: []string{p.Package}, Target: target, Flags: p.Flags, Cache: cache,
			Cold: true, Progress: b.Progress,
		}
		if p.File == "" {
			return compile.Run(ctx)
		}
		compile.Target = filepath.Join(target, p.File)
		compile.Name = fmt.Sprintf("%s: %s (%d of %d)", b.Name, p.File, i+1, len(b.Programs))
		if err := os.MkdirAll(target, 0o755); err != nil {
			return fmt.Errorf("create the directory of %s: %w", compile.Name, err)
		}
		hash, err := sourceHash([]Program{p})
		if err != nil {
			return err
		}
		reused, err := b.reuse(p, hash, target)
		if err != nil {
			return err
		}
		if reused {
			continue
		}
		if err := compile.Run(ctx); err != nil {
			return err
		}
		if err := os.WriteFile(marker(target, p), []byte(hash), 0o600); err != nil {
			return fmt.Errorf("mark %s as complete: %w", compile.Name, err)
		}
	}
	return nil
}

// marker returns the file in a directory of programs that has the hash of a complete program's sources.
func marker(dir string, p Program) string { return filepath.Join(dir, "."+p.File) }

// reuse puts the program of a hash into target, if a directory of programs has it.
func (b *Builder) reuse(p Program, hash, target string) (bool, error) {
	names, _ := filepath.Glob(filepath.Join(b.Cache, b.Prefix+"*")) // the pattern is valid
	for _, dir := range names {
		text, err := os.ReadFile(marker(dir, p))
		switch {
		case err != nil || string(text) != hash:
			continue
		case dir == target:
			return true, nil
		}
		for from, to := range map[string]string{
			filepath.Join(dir, p.File): filepath.Join(target, p.File), marker(dir, p): marker(target, p),
		} {
			if err := os.Link(from, to); err != nil && !errors.Is(err, fs.ErrExist) {
				return false, fmt.Errorf("take over %s: %w", p.File, err)
			}
		}
		return true, nil
	}
	return false, nil
}

// markUsed reports whether a result exists. It sets the file's time, so that prune keeps it.
func markUsed(result string) bool {
	now := time.Now()
	return os.Chtimes(result, now, now) == nil
}

// lock waits until no other process builds. The operating system releases the lock when its holder dies.
func (b *Builder) lock(ctx context.Context) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(b.Cache, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the build of %s: %w", b.Name, err)
	}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for waiting := false; ; {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock the build of %s: %w", b.Name, err), file.Close())
		}
		if !waiting {
			b.Progress.WriteLine("Waiting for another process that builds programs (up to " +
				(b.ColdCPU / 2).Round(time.Minute).String() + " on 2 cores)...")
			waiting = true
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for another process before building %s: %w", b.Name,
				context.Cause(ctx)), file.Close())
		case <-tick.C:
			b.Progress.Update("still waiting for the other process")
		}
	}
}

// prune removes all results except those used last, and the files of interrupted builds. The caller holds the lock.
func (b *Builder) prune() error {
	entries, err := os.ReadDir(b.Cache)
	if err != nil {
		return fmt.Errorf("list old programs: %w", err)
	}
	var results []fs.FileInfo
	var stale []string
	for _, entry := range entries {
		info, err := entry.Info()
		switch {
		case err != nil || !strings.HasPrefix(entry.Name(), b.Prefix):
		case strings.HasSuffix(entry.Name(), partSuffix):
			stale = append(stale, entry.Name())
		default:
			results = append(results, info)
		}
	}
	slices.SortFunc(results, func(x, y fs.FileInfo) int { return y.ModTime().Compare(x.ModTime()) })
	for _, old := range results[min(keptResults, len(results)):] {
		stale = append(stale, old.Name())
	}
	for _, name := range stale {
		if err := os.RemoveAll(filepath.Join(b.Cache, name)); err != nil {
			return fmt.Errorf("remove an old program: %w", err)
		}
	}
	return nil
}

// UserCache fills in the cache of the user of this process, the progress to be written to w, or to standard error if
// it is nil, and what every Builder of this user shares.
func (b *Builder) UserCache(w io.Writer) error {
	if w == nil {
		w = os.Stderr
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return fmt.Errorf("find a directory for %s: %w; set HOME or XDG_CACHE_HOME", b.Name, err)
	}
	b.Cache = filepath.Join(cache, "agents-controlplane")
	b.FirstCache = filepath.Join(b.Cache, "go-build")
	b.Progress = gobuild.NewProgress(w)
	return nil
}

//go:build unix

package cluster

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
	// binaryPrefix begins the name of every binary in the cache.
	binaryPrefix = "kubernetes-"
	// partSuffix ends the name of an incomplete binary.
	partSuffix = ".part"
	// keptBinaries is how many binaries stay in the cache: one for these sources and one for another branch.
	keptBinaries = 2
	// lockPoll is how often a process that waits for another's build tries the lock.
	lockPoll = 200 * time.Millisecond
)

// Build returns the path of the cluster's binary in the user's cache directory and builds it if it is not there. It
// compiles once for each state of the sources: about 7 minutes on 2 cores the first time, again after the first change
// of the nested module, and then seconds. Concurrent callers, in any process, wait for one build. Build reports its
// progress to progress, or to standard error where that is nil. An interrupted build continues where it stopped.
func Build(ctx context.Context, progress io.Writer) (binary string, err error) {
	b, err := newBuilder(progress)
	if err != nil {
		return "", err
	}
	return b.build(ctx)
}

// How long a build takes on a busy machine: from nothing, about twice the 14 CPU minutes that an idle one needs; with
// the packages of an earlier build in Go's build cache, a few of them and the linker.
const (
	coldBuildCPU = 24 * time.Minute
	warmBuild    = 2 * time.Minute
)

// BuildTime estimates how long Build will take on this machine. It is 0 if the binary is there already.
func BuildTime() (time.Duration, error) {
	b, err := newBuilder(io.Discard)
	if err != nil {
		return 0, err
	}
	return b.estimate(runtime.NumCPU())
}

func (b *builder) estimate(cpus int) (time.Duration, error) {
	binary, err := b.binary()
	if err != nil || markUsed(binary) {
		return 0, err
	}
	if b.builtBefore() > 1 { // the packages of the first build are not kept
		return warmBuild, nil
	}
	return max(warmBuild, coldBuildCPU/time.Duration(cpus)), nil
}

// builtBefore returns the number of binaries of other sources in the cache.
func (b *builder) builtBefore() int {
	names, _ := filepath.Glob(filepath.Join(b.cache, binaryPrefix+"*")) // the pattern is valid
	return len(slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, partSuffix) }))
}

func newBuilder(progress io.Writer) (*builder, error) {
	if progress == nil {
		progress = os.Stderr
	}
	module, err := findModule()
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("find a directory for the cluster's binary: %w; set HOME or XDG_CACHE_HOME", err)
	}
	cache = filepath.Join(cache, "agents-controlplane")
	return &builder{
		module: module, cache: cache, firstCache: filepath.Join(cache, "go-build"), flags: clusterFlags(),
		url:      os.Getenv(urlVariable),
		progress: gobuild.NewProgress(progress),
	}, nil
}

// clusterFlags make the binary small and independent of its directory, and set the Kubernetes version, which a build
// from modules does not know.
func clusterFlags() []string {
	const version = "k8s.io/component-base/version"
	return []string{
		"-trimpath",
		"-ldflags=-s -w -X " + version + ".gitVersion=v1.35.4 -X " + version + ".gitMajor=1 -X " + version +
			".gitMinor=35",
	}
}

// builder builds the main package of one module and caches its binaries.
type builder struct {
	module string // directory
	cache  string // directory
	flags  []string
	// firstCache is the compiler's cache of the first build, or empty. It is removed after that build, because most
	// users never change the cluster, and its packages take 2 GB. The builds of those who do use and keep the user's
	// cache.
	firstCache string
	url        string // of prebuilt binaries, or empty
	progress   *gobuild.Progress
}

// binary returns the path of the binary of the present sources, which need not exist.
func (b *builder) binary() (string, error) {
	hash, err := sourceHash(b.module, b.flags)
	return filepath.Join(b.cache, binaryPrefix+hash), err
}

func (b *builder) build(ctx context.Context) (string, error) {
	binary, err := b.binary()
	if err != nil || markUsed(binary) {
		return binary, err
	}
	if err := os.MkdirAll(b.cache, 0o755); err != nil {
		return "", fmt.Errorf("create the directory for the cluster's binary: %w", err)
	}
	defer b.progress.Start()()
	unlock, err := b.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if markUsed(binary) { // another process has built it
		return binary, nil
	}
	if err := b.fetch(ctx, filepath.Base(binary), binary+partSuffix); err != nil {
		return "", err
	}
	if err := os.Rename(binary+partSuffix, binary); err != nil {
		return "", fmt.Errorf("install the cluster's binary: %w", err)
	}
	if err := b.prune(); err != nil {
		b.progress.WriteLine("Old binaries were not removed: " + err.Error()) // the new one works
	}
	return binary, nil
}

// fetch downloads the binary to target, or compiles it.
func (b *builder) fetch(ctx context.Context, name, target string) error {
	if b.url != "" {
		err := b.download(ctx, name, target)
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		b.progress.WriteLine("The cluster could not be downloaded, and is compiled instead: " + err.Error())
		if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove an incomplete download: %w", err)
		}
	}
	compile := gobuild.Build{
		Name: "the local Kubernetes cluster", Dir: b.module, Packages: []string{"."}, Target: target,
		Flags: b.flags, Cold: true, Progress: b.progress,
	}
	if b.builtBefore() == 0 {
		compile.Cache = b.firstCache
	}
	if err := compile.Run(ctx); err != nil || compile.Cache == "" {
		return err
	}
	return os.RemoveAll(compile.Cache)
}

// markUsed reports whether binary exists. It sets the file's time, so that prune keeps it.
func markUsed(binary string) bool {
	now := time.Now()
	return os.Chtimes(binary, now, now) == nil
}

// lock waits until no other process builds. The operating system releases the lock when its holder dies.
func (b *builder) lock(ctx context.Context) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(b.cache, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the cluster's build: %w", err)
	}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for waiting := false; ; {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock the cluster's build: %w", err), file.Close())
		}
		if !waiting {
			b.progress.WriteLine("Waiting for another process that builds the local Kubernetes cluster " +
				"(up to 7 minutes on 2 cores)...")
			waiting = true
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for another process that builds the cluster: %w",
				context.Cause(ctx)), file.Close())
		case <-tick.C:
			b.progress.Update("still waiting for the other process")
		}
	}
}

// prune removes all binaries except those used last, and the files of interrupted builds. The caller holds the lock.
func (b *builder) prune() error {
	entries, err := os.ReadDir(b.cache)
	if err != nil {
		return fmt.Errorf("list old binaries: %w", err)
	}
	var binaries []fs.FileInfo
	var stale []string
	for _, entry := range entries {
		info, err := entry.Info()
		switch {
		case err != nil || !strings.HasPrefix(entry.Name(), binaryPrefix):
		case strings.HasSuffix(entry.Name(), partSuffix):
			stale = append(stale, entry.Name())
		default:
			binaries = append(binaries, info)
		}
	}
	slices.SortFunc(binaries, func(x, y fs.FileInfo) int { return y.ModTime().Compare(x.ModTime()) })
	for _, old := range binaries[min(keptBinaries, len(binaries)):] {
		stale = append(stale, old.Name())
	}
	for _, name := range stale {
		if err := os.Remove(filepath.Join(b.cache, name)); err != nil {
			return fmt.Errorf("remove an old binary: %w", err)
		}
	}
	return nil
}

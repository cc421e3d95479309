//go:build unix

package buildcache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/emulators/gobuild"
	"agents.example/controlplane/shared/testtier"
)

// newSmallBuilder returns a builder of a small program that prints text.
func newSmallBuilder(t *testing.T, text string) *Builder {
	t.Helper()
	module := t.TempDir()
	write(t, module, "go.mod", "module example.test/small\n\ngo 1.26\n")
	write(t, module, "main.go", fmt.Sprintf("package main\n\nfunc main() { print(%s) }\n", text))
	return &Builder{
		Name: "the sample", Prefix: "sample-", Programs: []Program{{Module: module, Package: "."}}, Cache: t.TempDir(),
		ColdCPU: 24 * time.Minute, Progress: gobuild.NewProgress(io.Discard),
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestBuild_OnceForConcurrentBuilders(t *testing.T) {
	t.Parallel()
	first := newSmallBuilder(t, `"hello"`)
	const builders = 4
	binaries, outputs := make([]string, builders), make([]bytes.Buffer, builders)
	var all sync.WaitGroup
	for i := range builders {
		all.Go(func() {
			b := *first
			b.Progress = gobuild.NewProgress(&outputs[i])
			var err error
			if binaries[i], err = b.Build(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	built := 0
	for i := range outputs {
		built += strings.Count(outputs[i].String(), "Compiling ")
	}
	if built != 1 {
		t.Errorf("%d of %d builders compiled, want 1", built, builders)
	}
	if len(slices.Compact(binaries)) != 1 {
		t.Errorf("builders returned different binaries: %q", binaries)
	}
	if output, err := exec.CommandContext(t.Context(), binaries[0]).CombinedOutput(); err != nil ||
		string(output) != "hello" {
		t.Errorf("the binary printed %q (%v), want hello", output, err)
	}
}

func TestBuild_FollowsItsSources(t *testing.T) {
	t.Parallel()
	b := newSmallBuilder(t, `"one"`)
	build := func() string {
		t.Helper()
		binary, err := b.Build(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return binary
	}
	one := build()
	write(t, b.Programs[0].Module, "main_test.go", "package main\n")
	if again := build(); again != one {
		t.Errorf("binary after adding a test file = %s, want %s as before", again, one)
	}
	write(t, b.Programs[0].Module, "other.go", "package main\n")
	two := build()
	if two == one {
		t.Error("the binary after adding a source file is the same, want another")
	}
	if again := build(); again != two {
		t.Errorf("binary of unchanged sources = %s, want %s", again, two)
	}
	if !markUsed(one) {
		t.Error("the binary of the former sources was removed, want it kept")
	}
	setAge(t, one, time.Hour)
	write(t, b.Programs[0].Module, "third.go", "package main\n")
	three := build()
	for name, test := range map[string]struct {
		binary string
		kept   bool
	}{"newest": {three, true}, "second": {two, true}, "oldest": {one, false}} {
		if got := markUsed(test.binary); got != test.kept {
			t.Errorf("%s binary is in the cache: %t, want %t", name, got, test.kept)
		}
	}
}

func TestBuild_KeepsPackagesOnlyOfChangedSources(t *testing.T) {
	t.Parallel()
	testtier.RequireFull(t, "compiles parts of the standard library")
	b := newSmallBuilder(t, "undefinedName")
	b.FirstCache = filepath.Join(b.Cache, "go-build")
	if _, err := b.Build(t.Context()); err == nil {
		t.Fatal("a broken program was built")
	}
	if _, err := os.Stat(b.FirstCache); err != nil {
		t.Errorf("the packages of a build that failed: %v, want them kept for the next", err)
	}
	write(t, b.Programs[0].Module, "main.go", "package main\n\nfunc main() {}\n")
	if _, err := b.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(b.FirstCache); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the packages of the first build: error = %v, want them removed", err)
	}
	b.FirstCache = filepath.Join(os.DevNull, "unusable")
	write(t, b.Programs[0].Module, "other.go", "package main\n")
	if _, err := b.Build(t.Context()); err != nil {
		t.Errorf("a build of changed sources: %v, want it to use the user's cache", err)
	}
}

func setAge(t *testing.T, path string, age time.Duration) {
	t.Helper()
	then := time.Now().Add(-age)
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
}

func TestBuild_ErrorQuotesTheCompiler(t *testing.T) {
	t.Parallel()
	b := newSmallBuilder(t, "undefinedName")
	_, err := b.Build(t.Context())
	if err == nil || !strings.Contains(err.Error(), "undefined: undefinedName") ||
		!strings.Contains(err.Error(), "main.go:3") {
		t.Errorf("build of a broken program: error = %v, want it to quote the compiler", err)
	}
}

// canceller is a buffer that cancels a context at the first write.
type canceller struct {
	bytes.Buffer

	cancel context.CancelFunc
}

func (c *canceller) Write(text []byte) (int, error) {
	c.cancel()
	return c.Buffer.Write(text)
}

func TestBuild_WaitsForAnotherBuilderUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	b := newSmallBuilder(t, `"never"`)
	unlock, err := b.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	progress := &canceller{cancel: cancel}
	b.Progress = gobuild.NewProgress(progress)
	if _, err := b.Build(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("build while another holds the lock: error = %v, want context.Canceled", err)
	}
	if !strings.Contains(progress.String(), "Waiting for another process") {
		t.Errorf("progress = %q, want it to say why it waits", progress)
	}
}

func TestEstimate_DependsOnTheCache(t *testing.T) {
	t.Parallel()
	b := newSmallBuilder(t, `"hello"`)
	estimate := func(cpus int) time.Duration {
		t.Helper()
		d, err := b.estimate(cpus)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if got := estimate(2); got != b.ColdCPU/2 {
		t.Errorf("an empty cache on 2 CPUs: %s, want %s", got, b.ColdCPU/2)
	}
	if got := estimate(1000); got != warmBuild {
		t.Errorf("an empty cache on 1000 CPUs: %s, want %s", got, warmBuild)
	}
	write(t, b.Cache, b.Prefix+"0123"+partSuffix, "")
	if got := estimate(2); got != b.ColdCPU/2 {
		t.Errorf("after an interrupted build: %s, want %s", got, b.ColdCPU/2)
	}
	if _, err := b.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := estimate(2); got != 0 {
		t.Errorf("after a build: %s, want 0", got)
	}
	write(t, b.Programs[0].Module, "other.go", "package main\n")
	if got := estimate(2); got != b.ColdCPU/2 {
		t.Errorf("after the first change of the sources: %s, want %s", got, b.ColdCPU/2)
	}
	if _, err := b.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, b.Programs[0].Module, "third.go", "package main\n")
	if got := estimate(2); got != warmBuild {
		t.Errorf("after a change of the sources: %s, want %s", got, warmBuild)
	}
}

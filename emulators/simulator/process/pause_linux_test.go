package process

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// writing starts a shell and a child of it, which append to a file each, and waits until both have begun.
func writing(t *testing.T) (p *Process, files [2]string) {
	t.Helper()
	dir := t.TempDir()
	p, _, _ = run(t, "(while :; do echo a >> "+dir+"/child; done) & while :; do echo a >> "+dir+"/parent; done")
	t.Cleanup(func() {
		p.Signal(syscall.SIGKILL)
		<-p.Done()
	})
	files = [2]string{filepath.Join(dir, "parent"), filepath.Join(dir, "child")}
	awaitGrowth(t, files, [2]int64{})
	return p, files
}

func sizes(files [2]string) (got [2]int64) {
	for i, file := range files {
		if info, err := os.Stat(file); err == nil {
			got[i] = info.Size()
		}
	}
	return got
}

func awaitGrowth(t *testing.T, files [2]string, before [2]int64) {
	t.Helper()
	limit := time.After(time.Minute)
	for now := sizes(files); now[0] <= before[0] || now[1] <= before[1]; now = sizes(files) {
		select {
		case <-time.After(time.Millisecond):
		case <-limit:
			t.Fatalf("the files have %v bytes, want both to grow from %v", now, before)
		}
	}
}

func TestPause_StopsAProcessGroupUntilItIsResumed(t *testing.T) {
	t.Parallel()
	p, files := writing(t)
	for range 20 { // a thread that still runs would write in one of them
		resume, err := Pause(t.Context(), InGroups(map[int]bool{p.Group(): true}))
		if err != nil {
			t.Fatal(err)
		}
		before := sizes(files)
		<-time.After(5 * time.Millisecond)
		if after := sizes(files); after != before {
			t.Errorf("the files have %v bytes after the pause and then %v, want no change", before, after)
		}
		resume()
		awaitGrowth(t, files, before)
	}
}

func TestPause_ResumesWhenItFails(t *testing.T) {
	t.Parallel()
	p, files := writing(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Pause(ctx, InGroups(map[int]bool{p.Group(): true})); err == nil {
		t.Fatal("a pause whose time is over succeeds")
	}
	awaitGrowth(t, files, sizes(files))
}

func TestPause_OfNothing(t *testing.T) {
	t.Parallel()
	resume, err := Pause(t.Context(), InControlGroup("/pod-that-does-not-exist"))
	if err != nil {
		t.Fatal(err)
	}
	resume()
}

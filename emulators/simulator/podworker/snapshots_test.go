//go:build linux

package podworker

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// newVolume returns a runtime, and the directory of its volume "v".
func newVolume(t *testing.T) (r *Runtime, dir string) {
	t.Helper()
	r = &Runtime{options: Options{Dir: t.TempDir()}}
	dir, err := r.MakeVolume("v")
	if err != nil {
		t.Fatal(err)
	}
	return r, dir
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// blocks returns how many blocks of 512 bytes a file has, and its number of links.
func blocks(t *testing.T, file string) (count int64, links uint64) {
	t.Helper()
	info, err := os.Lstat(file)
	must(t, err)
	stat := info.Sys().(*syscall.Stat_t)
	return stat.Blocks, uint64(stat.Nlink) //nolint:unconvert // its type depends on the processor
}

func TestSnapshot_HasEverythingOfAVolume(t *testing.T) {
	t.Parallel()
	r, dir := newVolume(t)
	old := time.Date(2026, time.January, 2, 3, 4, 5, 6000, time.UTC)
	secret := filepath.Join(dir, "deep", "secret")
	must(t, os.Mkdir(filepath.Dir(secret), 0o750), os.WriteFile(secret, []byte("text"), 0o600),
		os.Chmod(secret, 0o711|fs.ModeSetuid), os.Symlink("deep/secret", filepath.Join(dir, "link")),
		os.Link(secret, filepath.Join(dir, "same")), os.WriteFile(filepath.Join(dir, "sparse"), nil, 0o644),
		os.Truncate(filepath.Join(dir, "sparse"), 8<<20), os.Chtimes(secret, old, old),
		os.Chmod(dir, 0o770|fs.ModeSetgid))
	owned := os.Getuid() == 0
	if owned {
		must(t, os.Lchown(secret, 1234, 4321), os.Chmod(secret, 0o711|fs.ModeSetuid), os.Chtimes(secret, old, old))
	}
	taken, err := r.TakeSnapshot(t.Context(), "s", "v", 5<<30)
	must(t, err, os.WriteFile(secret, []byte("changed afterwards"), 0o600))
	must(t, r.RestoreVolume(t.Context(), "w", "s"))
	found, ok, err := r.Snapshot("s")
	if must(t, err); !ok || found.Size != 5<<30 || !found.CutAt.Equal(taken.CutAt) {
		t.Errorf("snapshot %+v, %t, want %+v", found, ok, taken)
	}

	restored := filepath.Join(filepath.Dir(dir), "w")
	info, err := os.Stat(filepath.Join(restored, "deep", "secret"))
	must(t, err)
	if want := 0o711 | fs.ModeSetuid; info.Mode() != want || !info.ModTime().Equal(old) {
		t.Errorf("mode %s and time %s, want %s and %s", info.Mode(), info.ModTime(), want, old)
	}
	if stat := info.Sys().(*syscall.Stat_t); owned && (stat.Uid != 1234 || stat.Gid != 4321) {
		t.Errorf("owner %d:%d, want 1234:4321", stat.Uid, stat.Gid)
	}
	text, err := os.ReadFile(filepath.Join(restored, "link"))
	target, _ := os.Readlink(filepath.Join(restored, "link"))
	if err != nil || string(text) != "text" || target != "deep/secret" {
		t.Errorf("link to %q with %q, %v, want one to deep/secret with text", target, text, err)
	}
	if _, links := blocks(t, filepath.Join(restored, "same")); links != 2 {
		t.Errorf("%d links of a file with two", links)
	}
	if count, _ := blocks(t, filepath.Join(restored, "sparse")); count > 64 {
		t.Errorf("a file without data has %d blocks", count)
	}
	if info, err := os.Stat(restored); err != nil || info.Mode().Perm() != 0o770 || info.Mode()&fs.ModeSetgid == 0 {
		t.Errorf("mode of the volume %s, %v, want that of the first one", info.Mode(), err)
	}
	must(t, r.RemoveSnapshot("s"), r.RemoveSnapshot("s"))
	if names, err := r.Snapshots(); err != nil || len(names) > 0 {
		t.Errorf("snapshots %q, %v after their removal, want none", names, err)
	}
}

func TestSnapshot_OfAVolumeWithoutADirectory(t *testing.T) {
	t.Parallel()
	r, _ := newVolume(t)
	_, err := r.TakeSnapshot(t.Context(), "s", "simulated", 1)
	must(t, err, r.RestoreVolume(t.Context(), "w", "s"))
	if names, err := r.Volumes(); err != nil || !slices.Equal(names, []string{"v"}) {
		t.Errorf("volumes %q, %v, want only v", names, err)
	}
}

func TestSnapshot_IsThereCompletelyOrNotAtAll(t *testing.T) {
	t.Parallel()
	r, dir := newVolume(t)
	must(t, os.WriteFile(filepath.Join(dir, "a"), nil, 0o600))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.TakeSnapshot(ended, "s", "v", 1); err == nil {
		t.Fatal("a snapshot whose time is over succeeds")
	}
	if _, ok, err := r.Snapshot("s"); ok || err != nil {
		t.Errorf("half a snapshot is one: %t, %v", ok, err)
	}
	// What a killed process leaves is no obstacle, and has another name than a snapshot.
	must(t, os.MkdirAll(filepath.Join(r.snapshots(), unfinished+"s", snapshotData), 0o700))
	_, err := r.TakeSnapshot(t.Context(), "s", "v", 1)
	must(t, err)
	if err := r.RestoreVolume(ended, "w", "s"); err == nil {
		t.Fatal("a volume is made whose time is over")
	}
	if names, err := r.Volumes(); err != nil || !slices.Equal(names, []string{"v"}) {
		t.Errorf("volumes %q, %v, want no half one", names, err)
	}
	must(t, r.RestoreVolume(t.Context(), "w", "s"), os.WriteFile(filepath.Join(r.volumes(), "w", "new"), nil, 0o600))
	must(t, r.RestoreVolume(t.Context(), "w", "s")) // of a worker that knows nothing of the first time
	if _, err := os.Stat(filepath.Join(r.volumes(), "w", "new")); err != nil {
		t.Errorf("a volume that exists was made again: %v", err)
	}
}

// TestPause_HoldsCommandsToo pauses a pod whose container runs a command. None starts until the pod is resumed.
func TestPause_HoldsCommandsToo(t *testing.T) {
	t.Parallel()
	n := newNode(t, corev1.Container{Command: []string{"stubborn"}})
	n.until(t, "running", func(r Report) bool { return r.Status.ContainerStatuses[0].State.Running != nil })
	name := types.NamespacedName{Namespace: "n", Name: "p"}
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	execute := func(script string) {
		_, err := n.runtime.Exec(ctx, name, "main", Command{Args: []string{"sh", "-c", script}})
		done <- err
	}
	defer func() {
		cancel()
		must(t, <-done, <-done)
	}()
	size := func(name string) int64 {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return 0
		}
		return info.Size()
	}
	grows := func(name string, from int64) {
		limit := time.After(time.Minute)
		for size(name) <= from {
			select {
			case <-time.After(time.Millisecond):
			case <-limit:
				t.Fatalf("%s does not grow", name)
			}
		}
	}
	go execute("while :; do echo a >> " + dir + "/first; done")
	grows("first", 0)
	resume, err := n.runtime.Pause(t.Context(), name)
	must(t, err)
	before := size("first")
	go execute("echo a >> " + dir + "/second")
	<-time.After(20 * time.Millisecond) // a process that goes on writes in it
	if after := size("first"); after != before || size("second") != 0 {
		t.Errorf("while the pod is paused, a command writes %d bytes, and a new one %d", after-before, size("second"))
	}
	resume()
	grows("first", before)
	grows("second", 0)
}

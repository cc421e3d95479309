package podworker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/emulators/simulator/process"
)

const (
	// snapshotFile describes a snapshot in its directory, and snapshotData is the copy of the volume there.
	snapshotFile, snapshotData = "snapshot.json", "data"
	// unfinished begins the names of copies that are being made.
	unfinished = ".new-"
)

// Snapshot is a copy of a volume's directory.
type Snapshot struct {
	Size  int64     `json:"size"` // of the volume
	CutAt time.Time `json:"cut_at"`
}

// snapshots is the directory of all snapshots.
func (r *Runtime) snapshots() string { return filepath.Join(r.options.Dir, "snapshots") }

// Snapshot returns a snapshot by its name. It reports false if there is none.
func (r *Runtime) Snapshot(name string) (found Snapshot, ok bool, err error) {
	text, err := os.ReadFile(filepath.Join(r.snapshots(), filepath.Base(name), snapshotFile))
	if errors.Is(err, fs.ErrNotExist) {
		return found, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	if err != nil {
		return found, false, fmt.Errorf("read snapshot %s: %w", name, err)
	}
	return found, true, nil
}

// TakeSnapshot copies the directory of a volume, which may not exist. The caller has paused what writes to it.
func (r *Runtime) TakeSnapshot(ctx context.Context, name, volume string, size int64) (Snapshot, error) {
	taken := Snapshot{Size: size, CutAt: time.Now()}
	err := r.build(filepath.Join(r.snapshots(), filepath.Base(name)), func(dir string) error {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		from := filepath.Join(r.volumes(), volume)
		if err := copyDirectory(ctx, from, filepath.Join(dir, snapshotData)); err != nil {
			return err
		}
		text, err := json.Marshal(taken)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, snapshotFile), text, 0o600)
	})
	if err != nil {
		return Snapshot{}, fmt.Errorf("take snapshot %s: %w", name, err)
	}
	return taken, nil
}

// RestoreVolume makes the directory of a volume from a snapshot, unless it exists. A snapshot of a volume without a
// directory makes none.
func (r *Runtime) RestoreVolume(ctx context.Context, volume, snapshot string) error {
	to := filepath.Join(r.volumes(), volume)
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	r.copies.RLock() // the snapshot stays until the copy is complete
	defer r.copies.RUnlock()
	from := filepath.Join(r.snapshots(), filepath.Base(snapshot), snapshotData)
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := r.build(to, func(dir string) error { return copyDirectory(ctx, from, dir) })
	if err != nil {
		return fmt.Errorf("make volume %s from snapshot %s: %w", volume, snapshot, err)
	}
	return nil
}

// RemoveSnapshot removes a snapshot, if it exists.
func (r *Runtime) RemoveSnapshot(name string) error {
	r.copies.Lock()
	defer r.copies.Unlock()
	if err := os.RemoveAll(filepath.Join(r.snapshots(), filepath.Base(name))); err != nil {
		return fmt.Errorf("remove snapshot %s: %w", name, err)
	}
	return nil
}

// Snapshots returns the names of all snapshots, and of what is left of copies that were interrupted.
func (r *Runtime) Snapshots() ([]string, error) { return namesIn(r.snapshots()) }

// namesIn returns the names of what is in a directory, which may not exist.
func namesIn(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}

// build makes a directory that is there completely or not at all.
func (r *Runtime) build(path string, make func(dir string) error) error {
	fresh := filepath.Join(r.snapshots(), unfinished+filepath.Base(path))
	if err := errors.Join(os.MkdirAll(r.snapshots(), 0o700), os.MkdirAll(filepath.Dir(path), 0o700)); err != nil {
		return err
	}
	err := os.RemoveAll(fresh) // of an attempt that was interrupted
	if err == nil {
		err = make(fresh)
	}
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(fresh))
	}
	return nil
}

// copyDirectory copies a directory, if it exists, with owners, modes, times, links and holes. File systems that can
// share the blocks of files do that.
func copyDirectory(ctx context.Context, from, to string) error {
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	output, err := exec.CommandContext(ctx, "cp", "-a", "--reflink=auto", "--", from, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("copy a volume: %w: %s", err, strings.TrimSpace(string(output)))
	}
	return nil
}

// Pause stops the processes of a pod, and starts none until it is resumed. A process that left the process group of its
// container goes on.
func (r *Runtime) Pause(ctx context.Context, pod types.NamespacedName) (resume func(), err error) {
	r.mu.Lock()
	w := r.workers[pod]
	r.mu.Unlock()
	if w == nil {
		return func() {}, nil
	}
	w.mu.Lock()
	groups := map[int]bool{}
	for _, c := range w.containers() {
		if c.process != nil && !c.exited() {
			groups[c.process.Group()] = true
		}
	}
	for command := range w.commands {
		groups[command.Group()] = true
	}
	if len(groups) == 0 {
		return w.mu.Unlock, nil
	}
	goOn, err := process.Pause(ctx, process.InGroups(groups))
	if err != nil {
		w.mu.Unlock()
		return nil, fmt.Errorf("pause pod %s: %w", pod, err)
	}
	return func() {
		goOn()
		w.mu.Unlock()
	}, nil
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A Tree is a copy of a repository, in which defects are planted.
type Tree struct {
	source string
	dir    string
}

// openTree makes dir a copy of the working tree source, without the files that Git ignores. Everything else in
// dir is removed. A directory that is used again keeps Go's build cache valid, because the cache depends on paths.
func openTree(ctx context.Context, source, dir string) (*Tree, error) {
	t := &Tree{source: source, dir: dir}
	return t, t.Restore(ctx)
}

// Restore undoes all changes in the copy.
func (t *Tree) Restore(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = t.source
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	tracked := map[string]bool{}
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		present, err := t.copyFile(name)
		if err != nil {
			return err
		}
		tracked[name] = present
	}
	return t.removeOthers(tracked)
}

// copyFile copies a file whose copy differs. It reports false for a file that is deleted and not yet committed.
func (t *Tree) copyFile(name string) (bool, error) {
	from, to := filepath.Join(t.source, name), filepath.Join(t.dir, name)
	info, err := os.Lstat(from)
	if os.IsNotExist(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return true, copyLink(from, to)
	}
	want, err := os.ReadFile(from)
	if err != nil {
		return false, err
	}
	if have, err := os.ReadFile(to); err == nil && bytes.Equal(have, want) {
		return true, nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return false, err
	}
	return true, os.WriteFile(to, want, info.Mode().Perm())
}

func copyLink(from, to string) error {
	target, err := os.Readlink(from)
	if err != nil {
		return err
	}
	if have, err := os.Readlink(to); err == nil && have == target {
		return nil
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.Symlink(target, to)
}

func (t *Tree) removeOthers(tracked map[string]bool) error {
	return filepath.WalkDir(t.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(t.dir, path)
		if err != nil || tracked[filepath.ToSlash(name)] || name == lockFile {
			return err
		}
		return os.Remove(path)
	})
}

// Plant applies the defect's edits.
func (t *Tree) Plant(d *Defect) error {
	changed, err := d.apply(t.dir)
	if err != nil {
		return err
	}
	for name, text := range changed {
		file := filepath.Join(t.dir, name)
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), info.Mode().Perm()); err != nil {
			return err
		}
	}
	return nil
}

// apply returns the files below root that the defect changes, with their new contents.
func (d *Defect) apply(root string) (map[string]string, error) {
	changed := map[string]string{}
	for _, e := range d.edits() {
		text, ok := changed[e.File]
		if !ok {
			b, err := os.ReadFile(filepath.Join(root, e.File))
			if err != nil {
				return nil, err
			}
			text = string(b)
		}
		if n := strings.Count(text, e.From); n != 1 {
			return nil, fmt.Errorf("%s has the text to replace %d times, not once: %q", e.File, n, e.From)
		}
		if e.From == e.To {
			return nil, fmt.Errorf("%s: the edit changes nothing: %q", e.File, e.From)
		}
		changed[e.File] = strings.Replace(text, e.From, e.To, 1)
	}
	return changed, nil
}

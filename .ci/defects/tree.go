package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A Tree is a copy of a repository, in which defects are planted.
type Tree struct {
	dir   string
	files map[string]content // by their paths
}

// content is what a file is restored to.
type content struct {
	bytes []byte
	mode  fs.FileMode
	link  string // the target of a symbolic link
}

// openTree makes dir a copy of the working tree source as it is now, without the files that Git ignores. Everything
// else in dir is removed. A directory that is used again keeps Go's build cache valid, because the cache depends on
// paths.
func openTree(ctx context.Context, source, dir string) (*Tree, error) {
	cmd := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = source
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	t := &Tree{dir: dir, files: map[string]content{}}
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		c, err := readContent(filepath.Join(source, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and not yet committed
		}
		if err != nil {
			return nil, err
		}
		t.files[name] = c
	}
	return t, t.Restore()
}

func readContent(file string) (c content, err error) {
	info, err := os.Lstat(file)
	if err != nil {
		return c, err
	}
	c.mode = info.Mode()
	if c.mode&fs.ModeSymlink != 0 {
		c.link, err = os.Readlink(file)
	} else {
		c.bytes, err = os.ReadFile(file)
	}
	return c, err
}

// Restore undoes all changes in the copy.
func (t *Tree) Restore() error {
	for name, want := range t.files {
		file := filepath.Join(t.dir, name)
		have, err := readContent(file)
		if err == nil && have.link == want.link && bytes.Equal(have.bytes, want.bytes) {
			continue
		}
		if err := want.write(file); err != nil {
			return err
		}
	}
	return t.removeOthers()
}

func (c content) write(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if c.link == "" {
		return os.WriteFile(file, c.bytes, c.mode.Perm())
	}
	if err := os.RemoveAll(file); err != nil {
		return err
	}
	return os.Symlink(c.link, file)
}

func (t *Tree) removeOthers() error {
	return filepath.WalkDir(t.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(t.dir, path)
		if err != nil {
			return err
		}
		if _, ours := t.files[filepath.ToSlash(name)]; ours {
			return nil
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

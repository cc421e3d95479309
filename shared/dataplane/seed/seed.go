// Package seed writes an agent's files to its volume before the agent starts. It follows no link out of the volume, and
// knows nothing of where the files come from.
package seed

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

const (
	// directoryMode lets the group of the volume use a directory, and gives the group all that is made in it.
	directoryMode = 0o770 | fs.ModeSetgid
	// unfinished ends the name of a file that is being written.
	unfinished = ".seed"
)

// Write copies all files below from to the volume, with their permissions. Each replaces the one of its name as a
// whole. Directories that are missing are made. Other files stay.
func Write(from, volume string) error {
	root, err := os.OpenRoot(volume)
	if err != nil {
		return fmt.Errorf("open the volume: %w", err)
	}
	defer root.Close() //nolint:errcheck // only read
	return writeAll(root, from, "")
}

// writeAll copies the files of a directory. A kubelet makes them links to files in a directory whose name begins with
// two dots, and so does nothing of an agent.
func writeAll(root *os.Root, from, dir string) error {
	entries, err := os.ReadDir(filepath.Join(from, filepath.FromSlash(dir)))
	if err != nil {
		return fmt.Errorf("list files: %w", err)
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		source := filepath.Join(from, filepath.FromSlash(name))
		info, err := os.Stat(source)
		switch {
		case err != nil:
			return fmt.Errorf("read %s: %w", name, err)
		case info.IsDir():
			err = writeAll(root, from, name)
		default:
			err = write(root, source, name, info.Mode().Perm())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// write replaces a file of the volume.
func write(root *os.Root, source, name string, mode fs.FileMode) error {
	in, err := os.Open(source)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	defer in.Close() //nolint:errcheck // only read
	if err := makeDirectories(root, path.Dir(name)); err != nil {
		return err
	}
	temporary := name + unfinished
	err = root.Remove(temporary) // an earlier run ended early
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := fill(root, temporary, in, mode); err != nil {
		_ = root.Remove(temporary)
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := root.Rename(temporary, name); err != nil {
		_ = root.Remove(temporary)
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// fill makes a file that does not exist.
func fill(root *os.Root, name string, in io.Reader, mode fs.FileMode) error {
	out, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Chmod(mode)
	}
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// makeDirectories makes a directory and those above it.
func makeDirectories(root *os.Root, dir string) error {
	if dir == "." {
		return nil
	}
	if err := makeDirectories(root, path.Dir(dir)); err != nil {
		return err
	}
	err := root.Mkdir(dir, directoryMode.Perm())
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil // what is below it fails if it is no directory
	case err != nil:
		return fmt.Errorf("make the directory %s: %w", dir, err)
	}
	if err := root.Chmod(dir, directoryMode); err != nil {
		return fmt.Errorf("make the directory %s: %w", dir, err)
	}
	return nil
}

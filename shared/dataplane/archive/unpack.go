package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

const (
	// stagingName is the directory on a volume in which an archive is unpacked, until it has been checked to its end.
	stagingName = ".agent-import"
	// checkedName is a file there. Once it exists, what is left there only needs to get its place.
	checkedName = ".checked"
	// unpackedName is a directory there.
	unpackedName = "data"
	// markerName is a file on a volume that has an archive.
	markerName = ".agent-imported"
	// directoryMode lets the group of the volume use a directory, and gives the group all that is made in it.
	directoryMode = 0o770 | fs.ModeSetgid
)

// Volume is a directory that gets the content of an archive.
type Volume struct {
	Dir    string
	Limits Limits
	// Sync makes what was written survive a loss of power.
	Sync func(dir string) error
}

// Filled reports whether the volume needs no archive: it got one, or is in use.
func (v Volume) Filled() (bool, error) {
	entries, err := os.ReadDir(v.Dir)
	if err != nil {
		return false, fmt.Errorf("read the volume: %w", err)
	}
	for _, e := range entries {
		if e.Name() == markerName {
			return true, nil
		}
	}
	for _, e := range entries {
		if e.Name() == stagingName {
			return false, nil
		}
	}
	for _, e := range entries {
		if !reserved(e.Name()) {
			return true, nil
		}
	}
	return false, nil
}

// Unpack fills the volume from an archive that open returns. It may be repeated after a run that ended early. The
// volume has all of the archive or, in a directory that the next run removes, a part of it. Errors: those of Verify,
// ErrTooLarge.
func (v Volume) Unpack(open func() (io.ReadCloser, error)) error {
	root, err := os.OpenRoot(v.Dir)
	if err != nil {
		return fmt.Errorf("open the volume: %w", err)
	}
	defer root.Close() //nolint:errcheck // only names
	if _, err := root.Lstat(stagingName + "/" + checkedName); err != nil {
		if err := v.stage(root, open); err != nil {
			return errors.Join(full(err), root.RemoveAll(stagingName))
		}
	}
	return full(v.place(root))
}

// full explains that the volume has no room.
func full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return err
}

// stage unpacks an archive into the directory for that, and checks it.
func (v Volume) stage(root *os.Root, open func() (io.ReadCloser, error)) error {
	from, err := open()
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // only read
	err = root.RemoveAll(stagingName)
	if err == nil {
		err = makeDirectory(root, stagingName, 0)
	}
	if err == nil {
		err = makeDirectory(root, stagingName+"/"+unpackedName, 0)
	}
	if err != nil {
		return fmt.Errorf("make room on the volume: %w", err)
	}
	into, err := root.OpenRoot(stagingName + "/" + unpackedName)
	if err != nil {
		return fmt.Errorf("make room on the volume: %w", err)
	}
	defer into.Close() //nolint:errcheck // only names
	if _, err := read(from, v.Limits, unpacker{into}.unpack); err != nil {
		return err
	}
	if err := v.Sync(v.Dir); err != nil {
		return fmt.Errorf("write to the volume: %w", err)
	}
	return v.mark(root, stagingName+"/"+checkedName)
}

// mark makes an empty file.
func (v Volume) mark(root *os.Root, name string) error {
	file, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o660)
	if err == nil {
		err = file.Close()
	}
	if err == nil {
		err = v.Sync(v.Dir)
	}
	if err != nil {
		return fmt.Errorf("write to the volume: %w", err)
	}
	return nil
}

// place gives what was unpacked its place.
func (v Volume) place(root *os.Root) error {
	entries, err := fs.ReadDir(root.FS(), stagingName+"/"+unpackedName)
	if err != nil {
		return fmt.Errorf("read the volume: %w", err)
	}
	for _, e := range entries {
		if err := root.Rename(stagingName+"/"+unpackedName+"/"+e.Name(), e.Name()); err != nil {
			return fmt.Errorf("write to the volume: %w", err)
		}
	}
	if err := v.mark(root, markerName); err != nil {
		return err
	}
	if err := root.RemoveAll(stagingName); err != nil {
		return fmt.Errorf("write to the volume: %w", err)
	}
	return nil
}

// unpacker makes the entries of an archive in a directory. The operations of an os.Root lead nowhere else, whatever
// links the archive has made before.
type unpacker struct{ root *os.Root }

func (u unpacker) unpack(h *tar.Header, name string, content io.Reader) error {
	mode := fs.FileMode(h.Mode) & permissions //nolint:gosec // it was checked
	var err error
	switch h.Typeflag {
	case tar.TypeDir:
		err = makeDirectory(u.root, name, mode)
	case tar.TypeSymlink:
		err = u.root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		err = u.root.Link(strings.TrimPrefix(h.Linkname, dataPrefix), name)
	default:
		err = u.fill(h, name, mode, content)
	}
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) ||
		errors.Is(err, syscall.ENAMETOOLONG) || errors.Is(err, syscall.ELOOP) || escapes(err) {
		return invalid("an entry has no place: its directory is missing, or another entry has its name")
	}
	return err
}

// escapes reports whether an os.Root refused a path: it has an error without a name for that.
func escapes(err error) bool {
	failed, ok := errors.AsType[*fs.PathError](err)
	if link, isLink := errors.AsType[*os.LinkError](err); isLink {
		return !isErrno(link.Err)
	}
	return ok && !isErrno(failed.Err)
}

func isErrno(err error) bool {
	_, ok := errors.AsType[syscall.Errno](err)
	return ok
}

func makeDirectory(root *os.Root, name string, mode fs.FileMode) error {
	if err := root.Mkdir(name, directoryMode.Perm()); err != nil {
		return err
	}
	return root.Chmod(name, mode|directoryMode)
}

// fill makes a file. The group may do what the owner may: the agent's files are its own through their group.
func (u unpacker) fill(h *tar.Header, name string, mode fs.FileMode, content io.Reader) error {
	const owner, bits = 0o700, 3
	out, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, content)
	if err == nil {
		err = out.Chmod(mode | mode&owner>>bits)
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return u.root.Chtimes(name, h.ModTime, h.ModTime)
}

//go:build unix

package archive

import (
	"archive/tar"
	"io/fs"
	"syscall"
)

// linkTo makes the entry of a file one of a hard link if the archive has the file under another name.
func (w *writer) linkTo(h *tar.Header, info fs.FileInfo) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Nlink < 2 {
		return
	}
	id := inode{device: uint64(stat.Dev), number: stat.Ino} //nolint:unconvert // other systems have other types
	if first, known := w.linked[id]; known {
		h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
		return
	}
	w.linked[id] = h.Name
}

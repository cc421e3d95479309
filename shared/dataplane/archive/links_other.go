//go:build !unix

package archive

import (
	"archive/tar"
	"io/fs"
)

// linkTo does nothing: the system does not tell which files are the same, so an archive has each of them.
func (*writer) linkTo(*tar.Header, fs.FileInfo) {}

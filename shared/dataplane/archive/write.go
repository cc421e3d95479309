package archive

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"time"

	"agents.example/controlplane/shared/dataplane"
)

// Write writes an archive of the volume in a directory that nothing else changes. It follows no link.
func Write(ctx context.Context, to io.Writer, manifest []byte, dir string) error {
	if err := checkManifest(manifest); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the volume: %w", err)
	}
	defer root.Close() //nolint:errcheck // only read
	w := &writer{ctx: ctx, to: &hashed{to: to, sum: sha256.New()}, root: root, linked: map[inode]string{}}
	w.tar = tar.NewWriter(w.to)
	if err := w.add(manifestName, manifest); err != nil {
		return err
	}
	if err := w.visitAll(""); err != nil {
		return fmt.Errorf("archive the volume: %w", err)
	}
	return w.end()
}

// writer is an archive that is being written.
type writer struct {
	ctx  context.Context //nolint:containedctx // of one call
	to   *hashed
	tar  *tar.Writer
	root *os.Root
	// linked has the first names of files that have several.
	linked map[inode]string
	total  Summary
}

type inode struct{ device, number uint64 }

// hashed is where an archive is written to. It sums up what has passed.
type hashed struct {
	to    io.Writer
	sum   hash.Hash
	bytes int64
}

// Write implements io.Writer.
func (h *hashed) Write(p []byte) (int, error) {
	n, err := h.to.Write(p)
	_, _ = h.sum.Write(p[:n]) // it never fails
	h.bytes += int64(n)
	return n, err
}

// add adds an entry that is not the volume's.
func (w *writer) add(name string, content []byte) error {
	err := w.tar.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content)), Format: tar.FormatUSTAR,
	})
	if err == nil {
		_, err = w.tar.Write(content)
	}
	if err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return nil
}

// visitAll adds what is in a directory of the volume. fs.WalkDir takes no names that are not UTF-8.
func (w *writer) visitAll(dir string) error {
	open, err := w.root.Open(path.Join(".", dir))
	if err != nil {
		return err
	}
	entries, err := open.ReadDir(-1)
	if err = errors.Join(err, open.Close()); err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		if err := w.visit(path.Join(dir, e.Name()), e); err != nil {
			return err
		}
	}
	return nil
}

// visit adds an entry of the volume, with what is in it.
func (w *writer) visit(name string, e fs.DirEntry) error {
	switch {
	case w.ctx.Err() != nil:
		return w.ctx.Err()
	case reserved(name):
		return nil
	case len(name) > maxPath: // no reader takes it
		w.total.Skipped++
		return nil
	}
	info, err := e.Info()
	if err != nil {
		return err
	}
	h := &tar.Header{
		Name: dataPrefix + name, Mode: int64(info.Mode() & permissions),
		ModTime: info.ModTime().Truncate(time.Second),
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
		if err := w.write(h, name); err != nil {
			return err
		}
		return w.visitAll(name)
	case mode&fs.ModeSymlink != 0:
		h.Typeflag = tar.TypeSymlink
		h.Linkname, err = w.root.Readlink(name)
	case mode.IsRegular():
		h.Typeflag, h.Size = tar.TypeReg, info.Size()
		w.linkTo(h, info)
	default:
		w.total.Skipped++
		return nil
	}
	switch {
	case err != nil:
		return err
	case h.Typeflag == tar.TypeSymlink && leadsOut(name, h.Linkname): // no reader takes it
		w.total.Skipped++
		return nil
	default:
		return w.write(h, name)
	}
}

func (w *writer) write(h *tar.Header, name string) error {
	if err := w.tar.WriteHeader(h); err != nil {
		return fmt.Errorf("write %s: %w", path.Base(name), err)
	}
	w.total.Entries++
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	w.total.Bytes += h.Size
	file, err := w.root.Open(name)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	n, err := io.CopyN(w.tar, file, h.Size)
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%s has %d bytes instead of %d", path.Base(name), n, h.Size)
	}
	return err
}

// end adds the entry that shows that the archive is complete.
func (w *writer) end() error {
	if err := w.tar.Flush(); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	w.total.Offset, w.total.SHA256 = w.to.bytes, hex.EncodeToString(w.to.sum.Sum(nil))
	content, err := json.Marshal(w.total)
	if err == nil {
		err = w.add(checksumName, append(content, '\n'))
	}
	if err == nil {
		err = w.tar.Close()
	}
	return err
}

// checkManifest checks a manifest as far as this package knows it.
func checkManifest(manifest []byte) error {
	var m dataplane.ArchiveManifest
	if len(manifest) > MaxManifest {
		return invalid("the manifest is too long")
	}
	if err := json.NewDecoder(bytes.NewReader(manifest)).Decode(&m); err != nil {
		return invalid("the manifest is no JSON object")
	}
	switch {
	case m.Format != dataplane.ArchiveFormat || m.Version < 1:
		return invalid("the manifest has another format")
	case m.Version > dataplane.ArchiveVersion:
		return fmt.Errorf("%w: it has version %d, and this program knows version %d", ErrNewer, m.Version,
			dataplane.ArchiveVersion)
	default:
		return nil
	}
}

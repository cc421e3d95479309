package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"strings"
)

// Limits bound what an archive may have.
type Limits struct {
	// Bytes is the size of all files, and Entries their number, with directories and links.
	Bytes, Entries int64
}

// maxLimit is for archives that are read and not unpacked.
const maxLimit = 1 << 62

// Verify reads an archive to its end and checks it. Errors: ErrInvalid, ErrNewer, ErrIncomplete, those of from.
func Verify(from io.Reader) (Summary, error) {
	none := func(*tar.Header, string, io.Reader) error { return nil }
	return read(from, Limits{Bytes: maxLimit, Entries: maxLimit}, none)
}

// visitor gets the entries of a volume. The name is that below the volume, without a slash at its end.
type visitor func(h *tar.Header, name string, content io.Reader) error

// reader is an archive that is being read.
type reader struct {
	from  *summed
	tar   *tar.Reader
	left  Limits
	total Summary
}

// read passes the entries of the volume to each, in their order, and checks the archive. What each did counts only once
// read has returned no error.
func read(from io.Reader, limits Limits, each visitor) (Summary, error) {
	r := &reader{from: &summed{from: from, sum: sha256.New()}, left: limits}
	r.tar = tar.NewReader(r.from)
	if err := r.manifest(); err != nil {
		return Summary{}, err
	}
	for {
		h, err := r.tar.Next()
		if err != nil {
			return Summary{}, broken(err)
		}
		if h.Name == checksumName {
			return r.checksum(h)
		}
		name, err := r.check(h)
		if err != nil {
			return Summary{}, err
		}
		if err := each(h, name, r.tar); err != nil {
			return Summary{}, broken(err)
		}
	}
}

// broken explains an error of a tar reader.
func broken(err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: it ends too early", ErrIncomplete)
	case errors.Is(err, tar.ErrHeader), errors.Is(err, tar.ErrFieldTooLong), errors.Is(err, tar.ErrInsecurePath):
		return invalid("it is no tar archive")
	default:
		return err
	}
}

// manifest reads the first entry.
func (r *reader) manifest() error {
	h, err := r.tar.Next()
	if errors.Is(err, io.EOF) {
		return invalid("it is empty")
	}
	if err != nil {
		return broken(err)
	}
	if h.Name != manifestName || h.Typeflag != tar.TypeReg || h.Size > MaxManifest {
		return invalid("it does not begin with a manifest")
	}
	content, err := io.ReadAll(r.tar)
	if err != nil {
		return broken(err)
	}
	return checkManifest(content)
}

// check returns the name of an entry below the volume.
func (r *reader) check(h *tar.Header) (string, error) {
	below, ok := strings.CutPrefix(h.Name, dataPrefix)
	name := below
	if h.Typeflag == tar.TypeDir {
		name = strings.TrimSuffix(below, "/")
	}
	top, _, _ := strings.Cut(name, "/")
	switch {
	case !ok || !validName(name):
		return "", invalid("it has an entry with a name that is not below data/")
	case reserved(top):
		return "", invalid("it has an entry with a reserved name")
	case h.Mode&^int64(permissions) != 0:
		return "", invalid("it has an entry with a set-user-ID, set-group-ID or sticky bit")
	}
	if err := checkLink(h, name); err != nil {
		return "", err
	}
	r.total.Entries++
	r.total.Bytes += h.Size
	if r.left.Entries--; r.left.Entries < 0 || h.Size > r.left.Bytes {
		return "", ErrTooLarge
	}
	r.left.Bytes -= h.Size
	return name, nil
}

// validName reports whether a name leads to a place below the volume, and is the only one for it. It need not be UTF-8.
func validName(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return len(name) <= maxPath && !strings.Contains(name, "\x00")
}

// leadsOut reports whether a symbolic link has a relative target that is not in the volume.
func leadsOut(name, target string) bool {
	at := path.Join(path.Dir(name), target)
	return !path.IsAbs(target) && (at == ".." || strings.HasPrefix(at, "../"))
}

// checkLink refuses entries of other types than an archive has, and links that lead out of the volume from where they
// are. A symbolic link may have an absolute target, which is a path in the container of an agent, such as that of an
// interpreter.
func checkLink(h *tar.Header, name string) error {
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir:
		return nil
	case tar.TypeSymlink:
		target := h.Linkname
		if target == "" || len(target) > maxPath || strings.Contains(target, "\x00") || leadsOut(name, target) {
			return invalid("it has a symbolic link that leads out of the volume")
		}
		return nil
	case tar.TypeLink:
		if target, ok := strings.CutPrefix(h.Linkname, dataPrefix); !ok || !validName(target) {
			return invalid("it has a hard link that leads out of the volume")
		}
		return nil
	default:
		return invalid("it has an entry that is no directory, file or link")
	}
}

// checksum reads the last entry and what follows it.
func (r *reader) checksum(h *tar.Header) (Summary, error) {
	// The header is one block: Next has read no further, so the sum is that of all bytes before it.
	sum, offset := hex.EncodeToString(r.from.sum.Sum(nil)), r.from.bytes
	if h.Typeflag != tar.TypeReg || h.Size > maxChecksum {
		return Summary{}, invalid("its last entry is no checksum")
	}
	content, err := io.ReadAll(r.tar)
	if err != nil {
		return Summary{}, broken(err)
	}
	var found Summary
	if err := json.NewDecoder(bytes.NewReader(content)).Decode(&found); err != nil {
		return Summary{}, invalid("its last entry is no checksum")
	}
	if found.SHA256 != sum || found.Offset != offset || found.Entries != r.total.Entries ||
		found.Bytes != r.total.Bytes {
		return Summary{}, fmt.Errorf("%w: it has another checksum", ErrIncomplete)
	}
	switch _, err := r.tar.Next(); {
	case err == nil:
		return Summary{}, invalid("it has entries after its checksum")
	case !errors.Is(err, io.EOF):
		return Summary{}, broken(err)
	}
	if n, err := io.Copy(io.Discard, io.LimitReader(r.from, blockSize)); n > 0 || err != nil {
		return Summary{}, errors.Join(err, invalid("it goes on after its end"))
	}
	return found, nil
}

// summed sums up what was read, except for the last block. A reader of tar archives reads no further than it must, so
// that block is the header of the present entry.
type summed struct {
	from  io.Reader
	sum   hash.Hash
	last  []byte
	bytes int64 // summed up
}

// Read implements io.Reader.
func (s *summed) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	s.last = append(s.last, p[:n]...)
	if over := len(s.last) - blockSize; over > 0 {
		_, _ = s.sum.Write(s.last[:over]) // it never fails
		s.bytes += int64(over)
		s.last = append(s.last[:0], s.last[over:]...)
	}
	return n, err
}

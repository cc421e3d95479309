// Package archive writes an agent's volume as a tar archive, checks such archives, and unpacks them. Archives come from
// strangers: nothing in one makes the package write outside its directory, or more than its limits. It does not know
// agents, and moves no bytes between machines.
//
// An archive of version 1 has these entries, in this order:
//
//   - manifest.json, a JSON object whose members format and version are those of an
//     ArchiveManifest. The others say whose volume
//     it is, for people.
//   - data/… for each directory, file, symbolic link and hard link of the volume. The permissions have no set-user-ID,
//     set-group-ID and sticky bits. Names need not be UTF-8. Sockets, pipes, devices, symbolic links with a relative
//     target outside of the volume, and paths of more than maxPath bytes are left out.
//   - checksum.json, a JSON object as Summary has it. It shows that the archive is complete: sha256 is the sum of the
//     first offset bytes of the archive, which end where the header of this entry begins.
//
// Example: head -c OFFSET archive.tar | sha256sum
package archive

import (
	"errors"
	"fmt"
	"io/fs"
)

// The names of entries.
const (
	manifestName = "manifest.json"
	dataPrefix   = "data/"
	checksumName = "checksum.json"
)

const (
	// MaxManifest bounds a manifest in bytes.
	MaxManifest = 1 << 20
	// maxPath bounds the path of an entry, and the target of a link.
	maxPath = 4096
	// maxChecksum bounds the last entry.
	maxChecksum = 4 << 10
	// blockSize is the size of the blocks of tar archives.
	blockSize = 512
)

// Summary is what the end of an archive says about the whole.
type Summary struct {
	// Entries counts those of the volume, and Bytes is the size of its files.
	Entries int64 `json:"entries"`
	Bytes   int64 `json:"bytes"`
	// Skipped counts what was left out.
	Skipped int64 `json:"skipped"`
	// Offset is where this entry begins, and SHA256 the sum of all bytes before it.
	Offset int64  `json:"offset"`
	SHA256 string `json:"sha256"`
}

// What can be wrong with an archive.
var (
	// ErrInvalid: it is no archive of this format, or it has what no archive may have.
	ErrInvalid = errors.New("not an archive of an agent's volume")
	// ErrNewer: it has a version that this program does not know.
	ErrNewer = errors.New("an archive of a newer version")
	// ErrIncomplete: it ends too early, or its bytes are not those that were written.
	ErrIncomplete = errors.New("the archive is incomplete or damaged")
	// ErrTooLarge: it has more than the limits allow.
	ErrTooLarge = errors.New("the archive is too large")
)

func invalid(why string) error { return fmt.Errorf("%w: %s", ErrInvalid, why) }

// permissions are the bits of a mode that an archive keeps.
const permissions = fs.ModePerm

// reserved reports whether a name at the top of a volume is the file system's or this package's.
func reserved(name string) bool {
	return name == "lost+found" || name == stagingName || name == markerName
}

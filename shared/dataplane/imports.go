package dataplane

import "time"

// ImportTimeout bounds an attempt of ImportArg. It is less than the time in which a new agent must become ready.
const ImportTimeout = 12 * time.Minute

// MaxImportEntries bounds the files, directories and links of an archive.
const MaxImportEntries = 1_000_000

// The exit codes of ImportArg. A judge of the pod knows nothing else of why there is no archive: texts could have the
// URL, or names that a stranger chose.
const (
	ImportUnreachable = 70 // the server or the network; another attempt may succeed
	ImportRefused     = 71 // another answer than 200
	ImportDenied      = 72 // 401 or 403
	ImportMissing     = 73 // 404 or 410
	ImportNotPublic   = 74 // the host has another address than one of the internet
	ImportInvalid     = 75 // no archive of a volume
	ImportNewer       = 76 // an archive of a newer version
	ImportIncomplete  = 77
	ImportTooLarge    = 78
)

const (
	// ArchiveFormat is the format of archives of volumes; see package archive.
	ArchiveFormat = "agents.example/volume"
	// ArchiveVersion is the only version of the format.
	ArchiveVersion = 1
)

// ArchiveManifest is what every manifest of an archive has.
type ArchiveManifest struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
}

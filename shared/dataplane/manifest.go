package dataplane

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

// Package clientrelease names the files of the clients that a release publishes: packages for Go, TypeScript and Python
// and the command line tool. It says where they are in a bucket. It does not make them, and reads no bucket.
package clientrelease

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// GoModule is the path of the client as a module of Go.
const GoModule = "agents.example/controlplane/shared/client"

// TypeScript is the name of the client as a package of npm.
const TypeScript = "@agents.example/client"

// Python is the name of the client as a distribution of Python.
const Python = "agents-client"

// version is that of the clients of this binary's release. The linker sets it.
var version string

// Version returns the version of the clients of this binary's release; empty for a binary that no release has built.
func Version() string { return version }

// File is a published file. It never changes.
type File struct {
	// Name is its path below /clients/.
	Name string `json:"name"`
	// Object is its name in the bucket.
	Object string `json:"object"`
	// SHA256 and Size describe its content. In the local cloud, which makes a file when it is first asked for, they are
	// zero.
	SHA256 string `json:"sha256,omitempty"`
	Size   int64  `json:"size,omitempty"`
}

// Release is what a release publishes.
type Release struct {
	Version string `json:"version"`
	Files   []File `json:"files"`
}

// File returns a file by its name.
func (r Release) File(name string) (File, bool) {
	i := slices.IndexFunc(r.Files, func(f File) bool { return f.Name == name })
	if i < 0 {
		return File{}, false
	}
	return r.Files[i], true
}

// Store has what was published.
type Store interface {
	// Versions lists the published versions, in no order. Errors: Unavailable.
	Versions(ctx context.Context) ([]string, error)
	// Release reads what a release has published. Errors: NotFound, Unavailable.
	Release(ctx context.Context, version string) (Release, error)
	// Open reads a file. Errors: NotFound, Unavailable.
	Open(ctx context.Context, f File) (io.ReadCloser, error)
}

// Platform is a system and a processor that the command line tool is built for, by Go's names.
type Platform struct{ OS, Arch string }

// Platforms lists those of the command line tool.
func Platforms() []Platform {
	var all []Platform
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, arch := range []string{"amd64", "arm64"} {
			all = append(all, Platform{system, arch})
		}
	}
	return all
}

// suffix ends the names of files for a platform.
func (p Platform) suffix() string {
	suffix := "-" + p.OS + "-" + p.Arch
	if p.OS == "windows" {
		suffix += ".exe"
	}
	return suffix
}

// LatestTool is the name under which the tool of the present release is served.
func LatestTool(p Platform) string { return "agentctl" + p.suffix() }

// Tool is the name of the tool of a version.
func Tool(version string, p Platform) string { return "agentctl-" + version + p.suffix() }

// Tarball is the name of the package of npm.
func Tarball(version string) string { return "agents.example-client-" + version + ".tgz" }

// Wheel is the name of the package of Python.
func Wheel(version string) string { return "agents_client-" + version + "-py3-none-any.whl" }

// GoFiles is where the files of the module are, by the protocol of Go's module proxies.
const GoFiles = "go/" + GoModule + "/"

// GoZip and GoMod are the files of the module.
func GoZip(version string) string { return GoFiles + "@v/v" + version + ".zip" }

// GoMod is the name of the module's go.mod.
func GoMod(version string) string { return GoFiles + "@v/v" + version + ".mod" }

// Names lists the files of a release.
func Names(version string) []string {
	names := []string{GoMod(version), GoZip(version), Tarball(version), Wheel(version)}
	for _, p := range Platforms() {
		names = append(names, Tool(version, p))
	}
	return names
}

// The beginnings of the objects' names in the bucket.
const (
	// ReleasesPrefix begins the names of the lists of files. A list is written after its files, so what it lists is
	// there.
	ReleasesPrefix = "clients/releases/"
	// FilesPrefix begins the names of files, each of which ends with the checksum of the content. Two builds of one
	// version that differ do not mix.
	FilesPrefix = "clients/files/"
)

// ReleaseObject is the name of a release's list of files.
func ReleaseObject(version string) string { return ReleasesPrefix + version + ".json" }

// versionPattern matches a version: semantic for npm and Go, and valid for Python.
const versionPattern = `1\.[0-9]{8}\.(?:0|[1-9][0-9]{0,5})`

// VersionAt is the version of a commit of a time. Later commits have higher versions.
func VersionAt(t time.Time) string {
	t = t.UTC()
	return fmt.Sprintf("1.%s.%d", t.Format("20060102"), t.Hour()*10000+t.Minute()*100+t.Second())
}

// Time returns the time of a version's commit, and whether the text is a version.
func Time(version string) (time.Time, bool) {
	if !exactVersion().MatchString(version) {
		return time.Time{}, false
	}
	parts := strings.Split(version, ".")
	clock, err := strconv.Atoi(parts[2])
	if err != nil {
		return time.Time{}, false
	}
	t, err := time.Parse("20060102 150405", fmt.Sprintf("%s %06d", parts[1], clock))
	return t, err == nil
}

func exactVersion() *regexp.Regexp { return regexp.MustCompile("^" + versionPattern + "$") }

// VersionIn returns the version in the name of a file, and whether it has one.
func VersionIn(name string) (string, bool) {
	found := regexp.MustCompile(versionPattern).FindString(name)
	_, valid := Time(found)
	return found, valid
}

// Sort sorts versions, the oldest first.
func Sort(versions []string) {
	slices.SortFunc(versions, func(a, b string) int {
		at, _ := Time(a)
		bt, _ := Time(b)
		return cmp.Or(at.Compare(bt), cmp.Compare(a, b))
	})
}

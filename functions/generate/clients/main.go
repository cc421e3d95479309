// Command clients makes the files of the clients that a release publishes: a module of Go, packages of npm and Python,
// and the command line tool for each platform. It uploads nothing: cloudbuild.yaml does.
//
//	go run ./functions/generate/clients VERSION DIRECTORY        all files and their list, as they are in the bucket
//	go run ./functions/generate/clients VERSION DIRECTORY NAME   one file, for the local cloud
//
// The same sources make the same bytes, so that a second build of a version publishes nothing new.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"agents.example/controlplane/shared/clientrelease"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 2 || len(args) > 3 {
		return errors.New("usage: go run ./functions/generate/clients VERSION DIRECTORY [NAME]")
	}
	version, dir := args[0], args[1]
	if _, ok := clientrelease.Time(version); !ok {
		return fmt.Errorf("%q is no version such as 1.20261127.203023", version)
	}
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}
	m := maker{root: strings.TrimSpace(string(out)), version: version}
	if len(args) == 3 {
		content, err := m.file(ctx, args[2])
		if err != nil {
			return err
		}
		return write(filepath.Join(dir, path.Base(args[2])), content)
	}
	return m.release(ctx, dir)
}

// maker makes files from the sources below root.
type maker struct{ root, version string }

// release writes all files below dir by the names of their objects, and then their list.
func (m maker) release(ctx context.Context, dir string) error {
	r := clientrelease.Release{Version: m.version}
	for _, name := range clientrelease.Names(m.version) {
		content, err := m.file(ctx, name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		f := clientrelease.File{Name: name, SHA256: hex.EncodeToString(sum[:]), Size: int64(len(content))}
		f.Object = clientrelease.FilesPrefix + f.SHA256
		if err := write(filepath.Join(dir, f.Object), content); err != nil {
			return err
		}
		r.Files = append(r.Files, f)
	}
	list, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return write(filepath.Join(dir, clientrelease.ReleaseObject(m.version)), append(list, '\n'))
}

// file makes a file by its name.
func (m maker) file(ctx context.Context, name string) ([]byte, error) {
	var content []byte
	err := fmt.Errorf("no client has the file %s", name)
	switch name {
	case clientrelease.GoMod(m.version):
		content, err = m.goMod()
	case clientrelease.GoZip(m.version):
		content, err = m.goZip()
	case clientrelease.Tarball(m.version):
		content, err = m.tarball(ctx)
	case clientrelease.Wheel(m.version):
		content, err = m.wheel()
	default:
		for _, p := range clientrelease.Platforms() {
			if name == clientrelease.Tool(m.version, p) {
				content, err = m.tool(ctx, p)
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", name, err)
	}
	return content, nil
}

// write writes a file, which is complete when it appears.
func write(file string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file+".part", content, 0o644); err != nil {
		return err
	}
	return os.Rename(file+".part", file)
}

// read reads a source.
func (m maker) read(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(m.root, filepath.FromSlash(name)))
}

// changeLog is the change log of the API, which the packages have, too.
const changeLog = ".github/CHANGELOG.md"

// unreleased is the version in the sources, which a package replaces.
const unreleased = "0.0.0"

// replaceVersion puts the version in the place of the one in the sources.
func (m maker) replaceVersion(text []byte, in string) ([]byte, error) {
	quoted := `"` + unreleased + `"`
	if strings.Count(string(text), quoted) != 1 {
		return nil, fmt.Errorf("%s has no %s, or several", in, quoted)
	}
	return []byte(strings.Replace(string(text), quoted, `"`+m.version+`"`, 1)), nil
}

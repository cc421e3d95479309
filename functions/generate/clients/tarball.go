package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"

	"agents.example/controlplane/shared/clientrelease"
)

// typeScript is the directory of the package of npm.
const typeScript = "shared/client/typescript"

// tarball is the package of npm: what npm pack makes. The compiler is the one of .ci/tools, so it needs no Node.js.
func (m maker) tarball(ctx context.Context) (content []byte, err error) {
	dist, err := os.MkdirTemp("", "client-typescript-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dist)) }()
	compile := exec.CommandContext(ctx, "go", "tool", "-modfile=.ci/tools/go.mod", "tsgo", "-p",
		typeScript+"/tsconfig.json", "--outDir", dist)
	compile.Dir = m.root
	if out, err := compile.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile %s: %w\n%s", typeScript, err, out)
	}
	files := map[string][]byte{}
	if files["CHANGELOG.md"], err = m.read(changeLog); err != nil {
		return nil, err
	}
	for _, name := range []string{"README.md", "package.json"} {
		if files[name], err = m.read(typeScript + "/" + name); err != nil {
			return nil, err
		}
	}
	err = filepath.WalkDir(dist, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dist, file)
		if err != nil {
			return err
		}
		name = "dist/" + filepath.ToSlash(name)
		files[name], err = os.ReadFile(file)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"package.json", "dist/version.js", "dist/version.d.ts"} {
		if files[name], err = m.replaceVersion(files[name], name); err != nil {
			return nil, err
		}
	}
	if named := regexp.MustCompile(`"name": "([^"]+)"`).FindSubmatch(files["package.json"]); named == nil ||
		string(named[1]) != clientrelease.TypeScript {
		return nil, fmt.Errorf("%s/package.json is not of %s", typeScript, clientrelease.TypeScript)
	}
	return packTarball(files)
}

// packTarball packs files as npm does: below package/, with a time that npm gives to all files.
func packTarball(files map[string][]byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(z)
	for _, name := range sortedNames(files) {
		err = w.WriteHeader(&tar.Header{
			Name: "package/" + name, Mode: 0o644, Size: int64(len(files[name])), ModTime: fixedTime(),
			Format: tar.FormatUSTAR,
		})
		if err == nil {
			_, err = w.Write(files[name])
		}
		if err != nil {
			return nil, err
		}
	}
	err = errors.Join(w.Close(), z.Close())
	return b.Bytes(), err
}

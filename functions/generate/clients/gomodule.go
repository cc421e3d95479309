package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"agents.example/controlplane/shared/clientrelease"
)

// goClient is the directory of the module's sources.
const goClient = "shared/client"

// goMod is the go.mod of the module. The client imports the standard library alone, so the module requires nothing.
func (m maker) goMod() ([]byte, error) {
	whole, err := m.read("go.mod")
	if err != nil {
		return nil, err
	}
	language := regexp.MustCompile(`(?m)^go [0-9.]+$`).Find(whole)
	if language == nil {
		return nil, errors.New("go.mod has no line with the version of Go")
	}
	return []byte("module " + clientrelease.GoModule + "\n\n" + string(language) + "\n"), nil
}

// goZip is the module's sources, in the form that Go's module proxies have.
func (m maker) goZip() ([]byte, error) {
	mod, err := m.goMod()
	if err != nil {
		return nil, err
	}
	log, err := m.read(changeLog)
	if err != nil {
		return nil, err
	}
	files := []zip.File{source{"CHANGELOG.md", log}, source{"go.mod", mod}}
	root := filepath.Join(m.root, filepath.FromSlash(goClient))
	err = filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch {
		case entry.IsDir() && (name == "typescript" || name == "python" || name == "generate" || name == "testdata"):
			return filepath.SkipDir
		case entry.IsDir() || strings.HasSuffix(name, "_test.go") || name != "README.md" && path.Ext(name) != ".go":
			return nil
		}
		content, err := os.ReadFile(file)
		if err == nil && name == "version.go" {
			content, err = m.replaceVersion(content, goClient+"/"+name)
		}
		files = append(files, source{name, content})
		return err
	})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = zip.Create(&b, module.Version{Path: clientrelease.GoModule, Version: "v" + m.version}, files)
	return b.Bytes(), err
}

// source is a file of a module.
type source struct {
	name    string
	content []byte
}

var (
	_ zip.File    = source{}
	_ os.FileInfo = source{}
)

// Path implements zip.File.
func (s source) Path() string { return s.name }

// Lstat implements zip.File.
func (s source) Lstat() (os.FileInfo, error) { return s, nil }

// Open implements zip.File.
func (s source) Open() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(s.content)), nil }

// Name implements os.FileInfo.
func (s source) Name() string { return path.Base(s.name) }

// Size implements os.FileInfo.
func (s source) Size() int64 { return int64(len(s.content)) }

// Mode implements os.FileInfo.
func (s source) Mode() os.FileMode { return 0o644 }

// ModTime implements os.FileInfo.
func (s source) ModTime() time.Time { return time.Time{} }

// IsDir implements os.FileInfo.
func (s source) IsDir() bool { return false }

// Sys implements os.FileInfo.
func (s source) Sys() any { return nil }

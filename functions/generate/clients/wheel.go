package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"agents.example/controlplane/shared/clientrelease"
)

const (
	// python is the directory of the Python package, and pythonImport the name under which programs import it.
	python       = "shared/client/python"
	pythonImport = "agents_client"
)

// fixedTime is the time of all packed files, so that the same sources make the same bytes. Archives of zip have no
// earlier year than 1980.
func fixedTime() time.Time { return time.Date(1985, 10, 26, 8, 15, 0, 0, time.UTC) }

func sortedNames(files map[string][]byte) []string { return slices.Sorted(maps.Keys(files)) }

// wheel is the package of Python: its sources, what pyproject.toml says about them, and the checksums of both.
func (m maker) wheel() ([]byte, error) {
	files := map[string][]byte{}
	root := filepath.Join(m.root, filepath.FromSlash(python), "src")
	err := filepath.WalkDir(filepath.Join(root, pythonImport), func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch ext := filepath.Ext(file); {
		case entry.IsDir() && entry.Name() == "__pycache__":
			return filepath.SkipDir
		case entry.IsDir() || ext != ".py" && ext != ".typed":
			return nil
		}
		name, err := filepath.Rel(root, file)
		if err == nil {
			files[filepath.ToSlash(name)], err = os.ReadFile(file)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	const version = pythonImport + "/_version.py"
	if files[version], err = m.replaceVersion(files[version], version); err != nil {
		return nil, err
	}
	project, err := m.read(python + "/pyproject.toml")
	if err != nil {
		return nil, err
	}
	readme, err := m.read(python + "/README.md")
	if err != nil {
		return nil, err
	}
	info := pythonImport + "-" + m.version + ".dist-info/"
	if files[info+"METADATA"], err = m.metadata(project, readme); err != nil {
		return nil, err
	}
	if files[info+"CHANGELOG.md"], err = m.read(changeLog); err != nil {
		return nil, err
	}
	files[info+"WHEEL"] = []byte("Wheel-Version: 1.0\nGenerator: agents-controlplane\n" +
		"Root-Is-Purelib: true\nTag: py3-none-any\n")
	return packWheel(files, info+"RECORD")
}

// metadata describes the package to installers.
func (m maker) metadata(project, readme []byte) ([]byte, error) {
	values := map[string]string{}
	for _, name := range []string{"name", "description", "requires-python"} {
		found := regexp.MustCompile(`(?m)^` + name + ` = "([^"]*)"$`).FindSubmatch(project)
		if found == nil {
			return nil, fmt.Errorf("%s/pyproject.toml has no line %s = \"...\"", python, name)
		}
		values[name] = string(found[1])
	}
	if values["name"] != clientrelease.Python {
		return nil, fmt.Errorf("%s/pyproject.toml is not of %s", python, clientrelease.Python)
	}
	if regexp.MustCompile(`(?m)^dependencies = \[[^\]]`).Match(project) {
		return nil, fmt.Errorf("%s/pyproject.toml has dependencies, which the wheel would lack", python)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "Metadata-Version: 2.1\nName: %s\nVersion: %s\nSummary: %s\nRequires-Python: %s\n"+
		"Description-Content-Type: text/markdown\n\n", values["name"], m.version, values["description"],
		values["requires-python"])
	b.Write(readme)
	return b.Bytes(), nil
}

// packWheel packs files, and the record of their checksums.
func packWheel(files map[string][]byte, record string) ([]byte, error) {
	var list strings.Builder
	for _, name := range sortedNames(files) {
		sum := sha256.Sum256(files[name])
		fmt.Fprintf(&list, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(files[name]))
	}
	files = maps.Clone(files)
	files[record] = []byte(list.String() + record + ",,\n")
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range sortedNames(files) {
		h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: fixedTime()}
		h.SetMode(0o644)
		f, err := w.CreateHeader(h)
		if err == nil {
			_, err = f.Write(files[name])
		}
		if err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agents.example/controlplane/shared/clientrelease"
)

const testVersion = "1.20261127.203023"

// sources is a repository with a small client for each language.
func sources(t *testing.T) maker {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                       "module agents.example/controlplane\n\ngo 1.26.0\n\nrequire x.test v1.0.0\n",
		".github/CHANGELOG.md":         "# Change log\n",
		"shared/client/README.md":      "# Go client\n",
		"shared/client/client.go":      "package client\n",
		"shared/client/client_test.go": "package client\n",
		"shared/client/version.go":     "package client\n\nvar version = \"0.0.0\"\n",
		"shared/client/diagnosis/d.go": "package diagnosis\n",

		"shared/client/typescript/node_modules/x.go": "package x\n",
		"shared/client/generate/config.yaml":         "a: b\n",

		"shared/client/python/README.md":                          "# Python client\n",
		"shared/client/python/src/agents_client/__init__.py":      "from ._version import VERSION\n",
		"shared/client/python/src/agents_client/_version.py":      "VERSION = \"0.0.0\"\n",
		"shared/client/python/src/agents_client/py.typed":         "",
		"shared/client/python/src/agents_client/__pycache__/a.py": "",
		"shared/client/python/pyproject.toml": "[project]\nname = \"agents-client\"\nversion = \"0.0.0\"\n" +
			"description = \"Client of the Agents API\"\nrequires-python = \">=3.10\"\n",
	} {
		file := filepath.Join(root, filepath.FromSlash(name))
		err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	return maker{root: root, version: testVersion}
}

// unzip returns the files of an archive by name.
func unzip(t *testing.T, content []byte) map[string]string {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range r.File {
		body, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name] = string(b)
	}
	return files
}

func TestGoZip_HasTheModuleAlone(t *testing.T) {
	t.Parallel()
	m := sources(t)
	content, err := m.goZip()
	if err != nil {
		t.Fatal(err)
	}
	files := unzip(t, content)
	prefix := clientrelease.GoModule + "@v" + testVersion + "/"
	var want []string
	for _, name := range []string{"CHANGELOG.md", "README.md", "client.go", "diagnosis/d.go", "go.mod", "version.go"} {
		want = append(want, prefix+name)
	}
	if got := sortedKeys(files); !slices.Equal(got, want) {
		t.Errorf("the module has the files %q, want %q", got, want)
	}
	if got := files[prefix+"version.go"]; !strings.Contains(got, `"`+testVersion+`"`) {
		t.Errorf("version.go = %q, want the version of the release", got)
	}
	mod, err := m.goMod()
	if want := "module " + clientrelease.GoModule + "\n\ngo 1.26.0\n"; err != nil || string(mod) != want ||
		files[prefix+"go.mod"] != want {
		t.Errorf("go.mod = %q, %v, want %q: without requirements", mod, err, want)
	}
}

func sortedKeys(files map[string]string) []string {
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func TestWheel_RecordsItsFiles(t *testing.T) {
	t.Parallel()
	content, err := sources(t).wheel()
	if err != nil {
		t.Fatal(err)
	}
	files := unzip(t, content)
	info := "agents_client-" + testVersion + ".dist-info/"
	want := []string{
		info + "CHANGELOG.md", info + "METADATA", info + "RECORD", info + "WHEEL", "agents_client/__init__.py",
		"agents_client/_version.py", "agents_client/py.typed",
	}
	if got := sortedKeys(files); !slices.Equal(got, want) {
		t.Errorf("the wheel has the files %q, want %q", got, want)
	}
	if got := files["agents_client/_version.py"]; got != "VERSION = \""+testVersion+"\"\n" {
		t.Errorf("_version.py = %q, want the version of the release", got)
	}
	const head = "Metadata-Version: 2.1\nName: agents-client\nVersion: " + testVersion +
		"\nSummary: Client of the Agents API\nRequires-Python: >=3.10\n"
	got := files[info+"METADATA"]
	if !strings.HasPrefix(got, head) || !strings.HasSuffix(got, "\n\n# Python client\n") {
		t.Errorf("METADATA = %q, want what pyproject.toml says, and the README", got)
	}
	record := files[info+"RECORD"]
	for name, text := range files {
		sum := sha256.Sum256([]byte(text))
		line := fmt.Sprintf("%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(text))
		if name == info+"RECORD" {
			line = name + ",,\n"
		}
		if !strings.Contains(record, line) {
			t.Errorf("RECORD lacks %q: %s", line, record)
		}
	}
}

func TestPackTarball_IsWhatNPMReads(t *testing.T) {
	t.Parallel()
	content, err := packTarball(map[string][]byte{"package.json": []byte("{}"), "dist/index.js": []byte("")})
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, h.Name)
	}
	if want := []string{"package/dist/index.js", "package/package.json"}; !slices.Equal(got, want) {
		t.Errorf("the package has the files %q, want %q", got, want)
	}
}

// TestPackages_AreTheSameTwice: a second build of a commit must not differ from what was published.
func TestPackages_AreTheSameTwice(t *testing.T) {
	t.Parallel()
	for name, pack := range map[string]func(m maker) ([]byte, error){
		"module": maker.goZip, "wheel": maker.wheel,
		"tarball": func(maker) ([]byte, error) {
			return packTarball(map[string][]byte{"b": []byte("b"), "a": []byte("a"), "c": nil})
		},
	} {
		first, err := pack(sources(t))
		if err != nil {
			t.Fatal(err)
		}
		second, err := pack(sources(t)) // other files, of another time, in another directory
		if err != nil || !bytes.Equal(first, second) {
			t.Errorf("%s: two builds differ, or %v", name, err)
		}
	}
}

func TestPackages_SayWhatTheSourcesLack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, text, want string
		pack             func(m maker) ([]byte, error)
	}{
		"no version of the module": {
			file: "shared/client/version.go", text: "package client\n", want: `version.go has no "0.0.0"`, pack: maker.goZip,
		},
		"no version of the wheel": {
			file: "shared/client/python/src/agents_client/_version.py", want: `_version.py has no "0.0.0"`, pack: maker.wheel,
		},
		"no description": {
			file: "shared/client/python/pyproject.toml", text: "name = \"agents-client\"\n", pack: maker.wheel,
			want: "no line description",
		},
		"another name": {
			file: "shared/client/python/pyproject.toml", want: "not of agents-client", pack: maker.wheel,
			text: "name = \"other\"\ndescription = \"d\"\nrequires-python = \">=3.10\"\n",
		},
		"dependencies": {
			file: "shared/client/python/pyproject.toml", want: "has dependencies", pack: maker.wheel,
			text: "name = \"agents-client\"\ndescription = \"d\"\nrequires-python = \">=3.10\"\n" +
				"dependencies = [\"x\"]\n",
		},
		"no version of Go": {file: "go.mod", text: "module m\n", want: "no line with the version", pack: maker.goMod},
	} {
		m := sources(t)
		if err := os.WriteFile(filepath.Join(m.root, filepath.FromSlash(c.file)), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := c.pack(m); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error = %v, want one that says %s", name, err, c.want)
		}
	}
}

func TestRun_RefusesWhatIsNoVersion(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"1.0.0", "dir"}, {testVersion}, {testVersion, "dir", "../../etc/passwd"}} {
		if err := run(t.Context(), args); err == nil {
			t.Errorf("run(%q) succeeds, want an error", args)
		}
	}
}

//go:build unix

package buildcache

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agents.example/controlplane/emulators/gobuild"
	"agents.example/controlplane/shared/testtier"
)

// newPair returns a builder of two programs of one module, each made of one directory, which print their sources.
func newPair(t *testing.T) (b *Builder, output *bytes.Buffer) {
	t.Helper()
	b = newSmallBuilder(t, `"unused"`)
	module := b.Programs[0].Module
	b.Programs = nil
	for _, name := range []string{"first", "second"} {
		if err := os.Mkdir(filepath.Join(module, name), 0o755); err != nil {
			t.Fatal(err)
		}
		writeProgram(t, filepath.Join(module, name), name)
		b.Programs = append(b.Programs,
			Program{Module: module, Package: "./" + name, File: name, Sources: []string{name, "go.mod"}})
	}
	output = &bytes.Buffer{}
	b.Progress = gobuild.NewProgress(output)
	return b, output
}

func writeProgram(t *testing.T, dir, text string) {
	t.Helper()
	write(t, dir, "main.go", "package main\n\nimport \"os\"\n\nfunc main() { os.Stdout.WriteString(\""+text+"\") }\n")
}

// checkPrograms runs the programs of a directory.
func checkPrograms(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	for name, text := range want {
		got, err := exec.CommandContext(t.Context(), filepath.Join(dir, name)).Output()
		if err != nil || string(got) != text {
			t.Errorf("%s printed %q (%v), want %q", name, got, err, text)
		}
	}
}

func TestBuild_CompilesOnlyChangedProgramsOfADirectory(t *testing.T) {
	t.Parallel()
	b, output := newPair(t)
	before, err := b.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	checkPrograms(t, before, map[string]string{"first": "first", "second": "second"})
	output.Reset()
	writeProgram(t, filepath.Join(b.Programs[1].Module, "second"), "changed")
	after, err := b.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	checkPrograms(t, after, map[string]string{"first": "first", "second": "changed"})
	checkPrograms(t, before, map[string]string{"first": "first", "second": "second"})
	if text := output.String(); strings.Contains(text, "first (") || !strings.Contains(text, "second (2 of 2)") {
		t.Errorf("output after a change of the second program = %q, want that it alone is compiled", text)
	}
}

func TestBuild_ContinuesAfterAFailure(t *testing.T) {
	t.Parallel()
	b, output := newPair(t)
	valid := b.Programs[1].Package
	b.Programs[1].Package = "./missing" // its sources are the same
	if _, err := b.Build(t.Context()); err == nil {
		t.Fatal("a missing program was built")
	}
	part, _ := filepath.Glob(filepath.Join(b.Cache, "sample-*"+partSuffix)) // the pattern is valid
	if len(part) != 1 {
		t.Fatalf("incomplete directories = %q, want one", part)
	}
	output.Reset()
	b.Programs[1].Package = valid
	dir, err := b.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	checkPrograms(t, dir, map[string]string{"first": "first", "second": "second"})
	if strings.Contains(output.String(), "first (") {
		t.Errorf("output of the second attempt = %q, want the first program kept", output)
	}
	if _, err := os.Stat(part[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("incomplete directory: error = %v, want it removed", err)
	}
}

func TestResult_IgnoresOtherSources(t *testing.T) {
	t.Parallel()
	b, _ := newPair(t)
	module := b.Programs[0].Module
	result := func() string {
		t.Helper()
		path, err := b.result()
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	before := result()
	write(t, module, "other.go", "package main\n")
	if got := result(); got != before {
		t.Errorf("result after a change of no program's sources = %s, want %s", got, before)
	}
	b.Programs[0].Sources = nil // the whole module
	before = result()
	nested := filepath.Join(module, "nested")
	if err := os.Mkdir(nested, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, nested, "go.mod", "module example.test/nested\n")
	write(t, module, "README.md", "text\n")
	write(t, module, "more_test.go", "package main\n")
	if got := result(); got != before {
		t.Errorf("result after a change of a nested module, a test and a README = %s, want %s", got, before)
	}
	write(t, filepath.Join(module, "first"), "embedded.conf", "text\n")
	if got := result(); got == before {
		t.Error("result after a change of a file that may be embedded is the same, want another")
	}
}

func TestBuild_KeepsThePackagesThatAnotherBuildNeeds(t *testing.T) {
	t.Parallel()
	testtier.RequireFull(t, "compiles parts of the standard library")
	for _, keep := range []bool{true, false} {
		b := newSmallBuilder(t, `"hello"`)
		b.FirstCache = filepath.Join(b.Cache, "go-build")
		b.KeepFirstCache = func() (bool, error) { return keep, nil }
		if _, err := b.Build(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(b.FirstCache); errors.Is(err, os.ErrNotExist) == keep {
			t.Errorf("packages of the first build, which another build needs: %t: error = %v", keep, err)
		}
	}
}

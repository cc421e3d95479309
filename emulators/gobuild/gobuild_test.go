//go:build unix

package gobuild

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// newBuild returns a build of a module with one file.
func newBuild(t *testing.T, source string) (Build, *bytes.Buffer) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.test/small\n\ngo 1.26\n", "main.go": source} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var output bytes.Buffer
	return Build{
		Name: "the sample", Dir: dir, Packages: []string{"."}, Target: filepath.Join(t.TempDir(), "sample"),
		Flags: Flags(), Cold: true, Progress: NewProgress(&output),
	}, &output
}

// undefined is a program that compiles and cannot be linked.
const undefined = `package main

import _ "unsafe"

//go:linkname missing example.test/small.missing
func missing()

func main() { missing() }
`

func TestRun_ShowsThatItLinks(t *testing.T) {
	t.Parallel()
	b, output := newBuild(t, undefined)
	if err := os.WriteFile(filepath.Join(b.Dir, "empty.s"), nil, 0o644); err != nil { // allows functions without a body
		t.Fatal(err)
	}
	if err := b.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Fatalf("error = %v, want the linker to miss a function", err)
	}
	if b.Progress.show(); !strings.Contains(output.String(), "compiled all packages, linking") {
		t.Errorf("output while the linker ran = %q, want it to say so", output)
	}
}

func TestRun_ShowsWhatIsLeft(t *testing.T) {
	t.Parallel()
	b, output := newBuild(t, "package main\n\nimport _ \"example.test/small/broken\"\n\nfunc main() {}\n")
	broken := filepath.Join(b.Dir, "broken")
	if err := os.Mkdir(broken, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, "a.go"), []byte("package broken\n\nvar a = b\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := b.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "undefined: b") {
		t.Fatalf("error = %v, want it to quote the compiler", err)
	}
	if b.Progress.show(); !strings.Contains(output.String(), " of at most ") {
		t.Errorf("output while a package was compiled = %q, want how many are left", output)
	}
}

// TestRun_SharesPackagesWithTests compares the compiled packages with those of the plain go command. Package net is one
// of those that depend on a C compiler.
func TestRun_SharesPackagesWithTests(t *testing.T) {
	t.Parallel()
	b, _ := newBuild(t, "package main\n\nimport _ \"net\"\n\nfunc main() {}\n")
	b.LikeTests = true
	compiled := func(env []string, flags ...string) string {
		const format = `{{if ne .Name "main"}}{{.Export}}{{end}}` // the program itself records the flags
		args := append([]string{"list", "-deps", "-export", "-f", format}, flags...)
		list := exec.CommandContext(t.Context(), "go", args...)
		list.Dir, list.Env = b.Dir, env
		out, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if got, want := compiled(b.environment(), b.Flags...), compiled(append(os.Environ(), "GOFLAGS=")); got != want {
		t.Errorf("the packages are those of\n%s\nwant those of go test:\n%s", got, want)
	}
}

// TestStaticPrograms_HaveTheTagsOfTheImage compares what is measured and run here with what is deployed.
func TestStaticPrograms_HaveTheTagsOfTheImage(t *testing.T) {
	t.Parallel()
	config, err := os.ReadFile("../../.ci/image/.ko.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(config), `"-tags=`+imageTags+`"`) {
		t.Errorf("the image is not built with the tags %s", imageTags)
	}
}

func TestProgress_ShowsTheTimeWhileNothingElseChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var output bytes.Buffer
		p := NewProgress(&output)
		stop := p.Start()
		p.WriteLine("Compiling the sample...")
		p.Update("linking")
		<-time.After(2*plainInterval + time.Second) // of the bubble's clock
		stop()
		if want := "Compiling the sample...\n  20s: linking\n  40s: linking\n"; output.String() != want {
			t.Errorf("output = %q, want %q", output.String(), want)
		}
	})
}

func TestProgress_ReplacesTheStatusOnATerminal(t *testing.T) {
	t.Parallel()
	var output bytes.Buffer
	p := NewProgress(&output)
	p.terminal = true
	p.Update("linking")
	p.show()
	p.WriteLine("Compiled.")
	if want := "\r\x1b[K  0s: linking\r\x1b[KCompiled.\n"; output.String() != want {
		t.Errorf("output = %q, want %q", output.String(), want)
	}
}

//go:build unix

// Package gobuild compiles programs of this repository with the go command, and shows what is done and what is left. It
// does not decide when a program must be compiled.
//
// The user's go command compiles this package before there is anything to show, so it imports little.
package gobuild

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// keptLines is how many of the compiler's last lines an error quotes.
const keptLines = 20

// Build describes programs to compile.
type Build struct {
	// Name names the programs, such as "the local Kubernetes cluster".
	Name string
	// Dir is a directory of the module, and Packages are the main packages.
	Dir      string
	Packages []string
	// Target is the file of the program, or a directory that ends with a separator.
	Target string
	// Flags are those of go build; see Flags.
	Flags []string
	// Cache is the directory of compiled packages; empty is the user's.
	Cache string
	// LikeTests uses C where go test does, so that both share compiled packages: half of them depend on package net,
	// which is another one with C. Otherwise the programs are linked statically.
	LikeTests bool
	// Cold says that most packages were not compiled before. The progress then says how many are left.
	Cold     bool
	Progress *Progress
}

// Flags are for all programs but those of images. Almost none changes how packages are compiled, so that go test does
// not compile them again: the tag leaves out 139 packages of gRPC, which Cloud Storage's client would use within Google
// Cloud. Firebase's library imports that client, and this project does not.
func Flags() []string { return flags("disable_grpc_modules") }

func flags(tags string) []string { return []string{"-buildvcs=false", "-tags=" + tags} }

// Run compiles what is not up to date.
func (b Build) Run(ctx context.Context) error {
	var packages []string // the program's is the last
	if b.Cold {
		b.Progress.WriteLine("Compiling " + b.Name + "...")
		err := b.run(ctx, "list", []string{"-deps"}, func(line string) (usual bool) {
			if strings.HasPrefix(line, "go: ") {
				b.Progress.Update(strings.TrimPrefix(line, "go: ")) // downloads
				return false
			}
			packages = append(packages, line)
			return true
		})
		if err != nil {
			return fmt.Errorf("list the packages of %s: %w", b.Name, err)
		}
	}
	compiled := 0
	err := b.run(ctx, "build", []string{"-v", "-o", b.Target}, func(line string) (usual bool) {
		if strings.ContainsAny(line, " :") { // an error; paths of packages have neither
			return false
		}
		compiled++
		switch {
		case len(packages) == 0:
			b.Progress.Update(fmt.Sprintf("compiled %d packages", compiled))
		case line == packages[len(packages)-1]:
			b.Progress.Update("compiled all packages, linking")
		default:
			b.Progress.Update(fmt.Sprintf("compiled %d of at most %d packages", compiled, len(packages)))
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("compile %s: %w", b.Name, err)
	}
	if b.Cold {
		b.Progress.WriteLine("Compiled " + b.Name + " in " + b.Progress.Elapsed().String() + ".")
	}
	return nil
}

// run runs a go command and calls each for every line of its output. An error quotes the last lines for which each
// returned false. The output is a pipe to this process, so the command ends soon after this process is killed.
func (b Build) run(ctx context.Context, command string, args []string, each func(line string) (usual bool)) error {
	var last []string
	output := &lineWriter{each: func(line string) {
		if each(line) {
			return
		}
		if last = append(last, line); len(last) > keptLines {
			last = last[1:]
		}
	}}
	args = append(append([]string{command}, args...), b.Flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, b.Packages...)...)
	cmd.Dir = b.Dir
	cmd.Env = b.environment()
	cmd.Stdout, cmd.Stderr = output, output
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it removes its temporary files then
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("go %s in %s: %w\n%s", command, b.Dir, err, strings.Join(last, "\n"))
	}
	return nil
}

// Environment makes the go command independent of the surrounding build's settings and of a C compiler.
func Environment() []string { return append(environment(), "CGO_ENABLED=0") }

// environment leaves the use of C to the user. A compiler that collects its garbage less often takes a fifth less CPU,
// and below 1.5 GB of memory.
func environment() []string {
	return append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GOOS=", "GOARCH=", "GOGC=800")
}

func (b Build) environment() []string {
	env := Environment()
	if b.LikeTests {
		env = environment()
	}
	if b.Cache != "" {
		env = append(env, "GOCACHE="+b.Cache)
	}
	return env
}

// lineWriter calls each for every complete line that is written to it, without the line's end.
type lineWriter struct {
	each func(line string)
	rest []byte
}

func (w *lineWriter) Write(text []byte) (int, error) {
	w.rest = append(w.rest, text...)
	for {
		line, rest, found := bytes.Cut(w.rest, []byte("\n"))
		if !found {
			return len(text), nil
		}
		w.rest = rest
		w.each(string(line))
	}
}

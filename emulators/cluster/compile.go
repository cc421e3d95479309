//go:build unix

package cluster

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

// compile builds the module into target and reports progress.
func (b *builder) compile(ctx context.Context, target string) error {
	b.progress.writeLine("Building the local Kubernetes cluster from source (once; about 7 minutes on 2 cores)...")
	packages := map[string]bool{}
	arguments := append([]string{"list", "-deps"}, b.flags...)
	err := b.run(ctx, append(arguments, "."), func(line string) (usual bool) {
		if strings.HasPrefix(line, "go: ") {
			b.progress.update(line) // downloads
			return false
		}
		packages[line] = true
		return true
	})
	if err != nil {
		return fmt.Errorf("list the packages of the local Kubernetes cluster: %w", err)
	}
	compiled := 0
	arguments = append([]string{"build", "-v", "-o", target}, b.flags...)
	err = b.run(ctx, append(arguments, "."), func(line string) (usual bool) {
		if !packages[line] {
			return false
		}
		compiled++
		b.progress.update(fmt.Sprintf("compiled %d of at most %d packages", compiled, len(packages)))
		return true
	})
	if err != nil {
		return fmt.Errorf("build the local Kubernetes cluster: %w", err)
	}
	b.progress.writeLine("Built the local Kubernetes cluster in " + b.progress.elapsed().String() + ".")
	return nil
}

// run runs the go command in the module and calls each for every line of its output. An error quotes the last lines for
// which each returned false. The output is a pipe to this process, so the command ends soon after this process is
// killed.
func (b *builder) run(ctx context.Context, args []string, each func(line string) (usual bool)) error {
	var last []string
	output := &lineWriter{each: func(line string) {
		if each(line) {
			return
		}
		if last = append(last, line); len(last) > keptLines {
			last = last[1:]
		}
	}}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.module
	cmd.Env = goEnvironment()
	cmd.Stdout, cmd.Stderr = output, output
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it removes its temporary files then
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("go %s in %s: %w\n%s", args[0], b.module, err, strings.Join(last, "\n"))
	}
	return nil
}

// goEnvironment makes the go command independent of the surrounding build's settings and of a C compiler. A compiler
// that collects its garbage less often takes a fifth less CPU, and below 1.5 GB of memory.
func goEnvironment() []string {
	return append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0", "GOOS=", "GOARCH=", "GOGC=800")
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

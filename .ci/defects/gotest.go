package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A Result is what go test reported about the tests of one package.
type Result struct {
	// Actions maps the name of a test to pass, fail or skip.
	Actions map[string]string
	// BuildFailed says that the tests, or what they import, did not compile.
	BuildFailed bool
	// Output is what go test printed.
	Output string
}

// goTest runs tests of a package below dir, in the package's module.
func goTest(ctx context.Context, dir string, g group, tests []string) (Result, error) {
	module, pkg := moduleOf(dir, g.pkg)
	args := []string{"test", "-json", "-count=1", "-vet=off", "-timeout=10m", "-run", testPattern(tests)}
	if g.tier == "" {
		args = append(args, "-short")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Dir = module
	if g.tier == fullTier {
		cmd.Env = append(os.Environ(), "EMULATORS=both")
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return Result{}, err
	}
	if err := cmd.Start(); err != nil {
		return Result{}, err
	}
	result, err := readEvents(stdout)
	result.Output += stderr.String()
	waited := cmd.Wait()
	if ctx.Err() != nil {
		return result, ctx.Err()
	}
	if exit := (*exec.ExitError)(nil); waited != nil && !errors.As(waited, &exit) {
		return result, waited
	}
	return result, err
}

// moduleOf returns the directory of a package's module, which may be nested, and the package's path in it.
func moduleOf(dir, pkg string) (module, inside string) {
	for folder := path.Clean(pkg); folder != "."; folder = path.Dir(folder) {
		if _, err := os.Stat(filepath.Join(dir, folder, "go.mod")); err == nil {
			return filepath.Join(dir, folder), "." + strings.TrimPrefix(path.Clean(pkg), folder)
		}
	}
	return dir, pkg
}

// testPattern is the argument of -run for tests by their full names. The elements of subtests are matched one by one.
func testPattern(tests []string) string {
	var levels [][]string
	for _, name := range tests {
		for i, element := range strings.Split(name, "/") {
			if i == len(levels) {
				levels = append(levels, nil)
			}
			if quoted := regexp.QuoteMeta(element); !slices.Contains(levels[i], quoted) {
				levels[i] = append(levels[i], quoted)
			}
		}
	}
	patterns := make([]string, 0, len(levels))
	for _, level := range levels {
		patterns = append(patterns, "^("+strings.Join(level, "|")+")$")
	}
	return strings.Join(patterns, "/")
}

// readEvents reads the output of go test -json.
func readEvents(r io.Reader) (Result, error) {
	result := Result{Actions: map[string]string{}}
	var output strings.Builder
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		var event struct{ Action, Test, Output, FailedBuild string }
		if err := json.Unmarshal(scanner.Bytes(), &event); err != nil {
			fmt.Fprintln(&output, scanner.Text())
			continue
		}
		output.WriteString(event.Output)
		switch event.Action {
		case "build-fail":
			result.BuildFailed = true
		case "pass", "fail", "skip":
			if event.FailedBuild != "" {
				result.BuildFailed = true
			}
			if event.Test != "" {
				result.Actions[event.Test] = event.Action
			}
		}
	}
	result.Output = output.String()
	return result, scanner.Err()
}

// generate runs go generate for the descriptions of the API, and for the files of the console, below dir.
func generate(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "go", "generate", "./functions/", "./functions/console")
	cmd.Dir = dir
	cmd.Env = os.Environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go generate: %w\n%s", err, out)
	}
	return nil
}

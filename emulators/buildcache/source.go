//go:build unix

package buildcache

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// FindModule finds a nested module, by its path in the repository, in the working directory or above. Tests run in the
// directory of their package and `go run` in the directory of its user, which both are within the repository.
func FindModule(path string) (string, error) {
	work, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the working directory: %w", err)
	}
	for dir := work; ; dir = filepath.Dir(dir) {
		module := filepath.Join(dir, filepath.FromSlash(path))
		if _, err := os.Stat(filepath.Join(module, "go.mod")); err == nil {
			return module, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is in no repository with %s: run this within the repository, "+
				"because it is built from source", work, path)
		}
	}
}

// KubernetesFlags make a program of Kubernetes small and independent of its directory, and set the version, which a
// build from modules does not know. All programs of the nested module have them, so that no package is compiled twice.
func KubernetesFlags() []string {
	const version = "k8s.io/component-base/version"
	return []string{
		"-trimpath",
		"-ldflags=-s -w -X " + version + ".gitVersion=v1.35.4 -X " + version + ".gitMajor=1 -X " + version +
			".gitMinor=35",
	}
}

// sourceHash identifies everything that determines programs: their sources, the compiler and the flags.
func sourceHash(programs []Program) (string, error) {
	sum := sha256.New()
	for _, p := range programs {
		_, _ = fmt.Fprintln(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH, p.Flags)
		if p.File != "" {
			_, _ = fmt.Fprintln(sum, p.Package, p.File)
		}
		if err := p.hash(sum); err != nil {
			return "", fmt.Errorf("read the sources in %s: %w", p.Module, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// hash writes the program's sources.
func (p Program) hash(sum io.Writer) error {
	sources := p.Sources
	if len(sources) == 0 {
		sources = []string{"."}
	}
	for _, source := range sources {
		root := filepath.Join(p.Module, filepath.FromSlash(source))
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && path != p.Module && isModule(path):
				return fs.SkipDir
			case entry.IsDir() || !isSource(entry.Name()):
				return nil
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(p.Module, path)
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintln(sum, filepath.ToSlash(relative), len(text))
			_, err = sum.Write(text)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// isModule reports whether a directory is a module, which a module around it does not contain.
func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// isSource reports whether a file may be part of a program, which may embed files of any kind.
func isSource(name string) bool {
	return !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, ".") &&
		filepath.Ext(name) != ".md"
}

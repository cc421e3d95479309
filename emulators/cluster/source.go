//go:build unix

package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// moduleDir is where the nested module is in the source tree.
const moduleDir = "emulators/kubernetes"

// findModule goes up from the working directory to the repository that has the nested module. Go runs tests in the
// directory of their package, and go run in that of its user, so both are inside it.
func findModule() (string, error) {
	work, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the working directory: %w", err)
	}
	for dir := work; ; dir = filepath.Dir(dir) {
		module := filepath.Join(dir, filepath.FromSlash(moduleDir))
		if _, err := os.Stat(filepath.Join(module, "go.mod")); err == nil {
			return module, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no directory above %s has %s; run this inside the repository, the cluster is built from its source", work, moduleDir)
		}
	}
}

// sourceHash stands for everything that the binary of a module is made of: its sources, the compiler, and how that is
// called.
func sourceHash(module string, flags []string) (string, error) {
	sum := sha256.New()
	_, _ = fmt.Fprintln(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH, flags)
	err := filepath.WalkDir(module, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !isSource(entry.Name()) {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(module, path)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintln(sum, filepath.ToSlash(relative), len(text))
		_, _ = sum.Write(text)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("read the cluster's sources: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

func isSource(name string) bool {
	return name == "go.mod" || name == "go.sum" || strings.HasSuffix(name, ".go") &&
		!strings.HasSuffix(name, "_test.go")
}

// gatewayModule defines the custom resources. This repository's own go.mod chooses its version, so that the cluster
// serves exactly what the code is compiled against, and no copy of the definitions can grow old.
const gatewayModule = "sigs.k8s.io/gateway-api"

// gatewayCRDs are the files that define what an HTTPRoute needs, of the standard channel.
func gatewayCRDs(ctx context.Context) ([]string, error) {
	nested, err := findModule()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", gatewayModule)
	cmd.Dir = strings.TrimSuffix(nested, filepath.FromSlash(moduleDir))
	cmd.Env = goEnvironment()
	output, err := cmd.Output()
	var module struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(output, &module); jsonErr != nil || module.Dir == "" {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && module.Error == "" {
			module.Error = string(exit.Stderr)
		}
		return nil, fmt.Errorf("find module %s, which go.mod must require: %w", gatewayModule,
			errors.Join(err, errors.New(module.Error)))
	}
	var files []string
	for _, plural := range []string{"gatewayclasses", "gateways", "httproutes", "referencegrants"} {
		file := filepath.Join(module.Dir, "config", "crd", "standard", "gateway.networking.k8s.io_"+plural+".yaml")
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("%s does not define %s as expected: %w", gatewayModule, plural, err)
		}
		files = append(files, file)
	}
	return files, nil
}

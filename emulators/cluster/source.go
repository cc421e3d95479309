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

	"agents.example/controlplane/emulators/gobuild"
)

// moduleDir is the path of the nested module in the repository.
const moduleDir = "emulators/kubernetes"

// findModule finds the nested module in the working directory or above. Tests run in the directory of their package and
// `go run` in the directory of its user, which both are within the repository.
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
			return "", fmt.Errorf("%s is in no repository with %s: run this within the repository, "+
				"because the cluster is built from source", work, moduleDir)
		}
	}
}

// sourceHash identifies everything that determines a module's binary: its sources, the compiler and the flags.
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

// fenceFile returns the admission policy that deployments apply to their clusters.
func fenceFile() (string, error) {
	nested, err := findModule()
	if err != nil {
		return "", err
	}
	file := filepath.Join(strings.TrimSuffix(nested, filepath.FromSlash(moduleDir)), "terraform", "cell", "fence.yaml")
	if _, err := os.Stat(file); err != nil {
		return "", fmt.Errorf("find the admission policy: %w", err)
	}
	return file, nil
}

// gatewayModule defines the custom resources. Its version is that in this repository's go.mod, so the cluster serves
// exactly the definitions that the code is compiled against.
const gatewayModule = "sigs.k8s.io/gateway-api"

// gatewayCRDs returns the files that define an HTTPRoute and what it needs, in the standard channel.
func gatewayCRDs(ctx context.Context) ([]string, error) {
	nested, err := findModule()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", gatewayModule)
	cmd.Dir = strings.TrimSuffix(nested, filepath.FromSlash(moduleDir))
	cmd.Env = gobuild.Environment()
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

//go:build unix

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"agents.example/controlplane/emulators/buildcache"
	"agents.example/controlplane/emulators/gobuild"
)

// moduleDir is the path of the nested module in the repository.
const moduleDir = "emulators/kubernetes"

// fenceFile returns the admission policy that deployments apply to their clusters.
func fenceFile() (string, error) { return sourceFile("terraform", "cell", "fence.yaml") }

// sourceFile returns the path of a file of this repository.
func sourceFile(path ...string) (string, error) {
	nested, err := buildcache.FindModule(moduleDir)
	if err != nil {
		return "", err
	}
	file := filepath.Join(strings.TrimSuffix(nested, filepath.FromSlash(moduleDir)), filepath.Join(path...))
	if _, err := os.Stat(file); err != nil {
		return "", fmt.Errorf("find a file of the sources: %w", err)
	}
	return file, nil
}

// gatewayModule defines the custom resources. Its version is that in this repository's go.mod, so the cluster serves
// exactly the definitions that the code is compiled against.
const gatewayModule = "sigs.k8s.io/gateway-api"

// gatewayCRDs returns the files that define an HTTPRoute and what it needs, in the standard channel.
// Build downloads the module; then the command takes milliseconds and no network.
func gatewayCRDs(ctx context.Context) ([]string, error) {
	nested, err := buildcache.FindModule(moduleDir)
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

package codesample_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agents.example/controlplane/shared/testtier"
)

const typeScriptHeader = `import { createClient } from "@agents.example/client";

const api = createClient({ baseURL: "https://api.example.com", token: "" });
export { operations };
const operations = {
`

// TestSamples_OfTypeScriptCompile checks the samples against the sources of the TypeScript client.
func TestSamples_OfTypeScriptCompile(t *testing.T) {
	t.Parallel()
	testtier.RequireFull(t, "builds the compiler")
	dir := t.TempDir()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	all := samples(t, "TypeScript")
	code := typeScriptHeader
	for _, id := range slices.Sorted(maps.Keys(all)) {
		code += fmt.Sprintf("async %s(agentId: string, operationId: string, key: string, keyId: string, "+
			"userId: string, webhookId: string, deliveryId: string, snapshotId: string) {\n%s\n},\n", id, all[id])
	}
	write(t, filepath.Join(dir, "samples.ts"), []byte(code+"};\n"))
	config, err := json.Marshal(map[string]any{
		"compilerOptions": map[string]any{
			"target": "ES2022", "module": "ESNext", "moduleResolution": "bundler", "noEmit": true, "types": []string{},
			"strict": true, "exactOptionalPropertyTypes": true,
			"lib": []string{"ES2023", "DOM", "DOM.Iterable", "DOM.AsyncIterable"},
			"paths": map[string][]string{
				"@agents.example/client": {filepath.Join(root, "shared/client/typescript/src/index.ts")},
			},
		},
		"files": []string{"samples.ts"},
	})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "tsconfig.json"), config)
	cmd := exec.CommandContext(t.Context(), "go", "tool", "-modfile=.ci/tools/go.mod", "tsgo", "-p", dir)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the samples do not compile: %v\n%s\nIf a path is unknown: go generate ./functions", err,
			strings.ReplaceAll(string(out), dir, ""))
	}
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

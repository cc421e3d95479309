package main

import (
	"os"
	"path/filepath"
	"testing"
)

const pythonPackage = "shared/client/python/src/agents_client"

func TestGeneratedFiles_AreCurrent(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, dir := range []string{
		"functions/console/app/agents", "functions/console/app/agent", "functions/agentctl",
		"shared/client/typescript/src", pythonPackage, "terraform",
	} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	config := filepath.Join("shared", "client", "generate")
	if err := os.CopyFS(filepath.Join(root, config), os.DirFS(filepath.Join("..", "..", config))); err != nil {
		t.Fatal(err)
	}
	if err := generate(root); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"functions/openapi.json", "shared/client/typescript/src/schema.ts", pythonPackage + "/models.py",
		pythonPackage + "/_sync_calls.py", pythonPackage + "/_async_calls.py",
		"functions/console/app/agents/secret-rule.ts", "terraform/functions.json", "functions/agentctl/REFERENCE.md",
	} {
		want, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s is stale: run go generate ./functions", name)
		}
	}
}

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/emulators/node"
)

func TestParse_RefusesFlagsThatExcludeEachOther(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"-node virtual":                   `unknown value "virtual"`,
		"-image agent:dev":                "-image needs -node real",
		"-registry 127.0.0.1:5000":        "-registry needs -node real",
		"-node real -kubeconfig config":   "exclude each other",
		"-host a.example:443=:1":          "-host needs -node real",
		"-node real -host a.example:443":  "want NAME:PORT=ADDRESS",
		"-node real -host a.example=:1":   "missing port",
		"-env A=1 -no-demo":               "-no-demo excludes",
		"-once -no-demo":                  "-no-demo excludes",
		"-env A":                          "want KEY=VALUE",
		"-catalog none.json":              "a file, or one of n8n, openclaw",
		"-catalog openclaw":               "want -node real",
		"-catalog n8n -kubeconfig config": "want -node real",
		"-node real -registry 127.0.0.1":  "a host and a port",
		"-node real -image /none.tar":     "/none.tar: no such file",
		"-node real -image none.tar.gz":   "none.tar.gz: no such file",
		"-node real -image none#agent:v1": "none: no such file",
	} {
		_, err := parse(strings.Fields(args), io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", args, err, want)
		}
	}
}

func TestParse_TellsFilesFromReferences(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "agents")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for image, want := range map[string]*node.Image{
		"":                        nil,
		"agent:dev":               {Reference: "agent:dev"},
		"ghcr.io/example/agent":   {Reference: "ghcr.io/example/agent"},
		"localhost:5000/agent":    {Reference: "localhost:5000/agent"},
		file:                      {Tarball: file},
		file + "#example/agent:1": {Tarball: file + "#example/agent:1"},
	} {
		s, err := parse([]string{"-node", "real", "-image", image}, io.Discard)
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(want, s.node.AgentImage); diff != "" {
			t.Errorf("-image %q (-want +got):\n%s", image, diff)
		}
	}
	if s, err := parse(nil, io.Discard); err != nil || s.node != nil {
		t.Errorf("without flags: node %v, error %v, want simulated nodes", s.node, err)
	}
}

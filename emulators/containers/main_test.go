package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestMain runs the node's command if the test binary is started as its program, as check does.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "try" {
		main()
		return
	}
	os.Exit(m.Run())
}

// written writes the configuration files of a node, and returns their texts by name.
func written(t *testing.T, c config) map[string]string {
	t.Helper()
	c.Dir, c.Programs, c.Cluster = t.TempDir(), "/programs", "/cluster"
	if err := os.MkdirAll(c.file(""), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.file(pauseImage), []byte("agents.localhost/pause@sha256:abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeFiles(c); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	err := filepath.WalkDir(c.file(""), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var text []byte
			text, err = os.ReadFile(path)
			texts[filepath.Base(path)] = string(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

func TestWriteFiles(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ runc, standard string }{{"", "runsc"}, {"/usr/sbin/runc", "runc"}} {
		texts := written(t, config{Runc: test.runc})
		if want := "default_runtime_name = '" + test.standard + "'"; !strings.Contains(texts["containerd.toml"], want) {
			t.Errorf("with runc at %q, containerd.toml has no %s:\n%s", test.runc, want, texts["containerd.toml"])
		}
		if has := strings.Contains(texts["containerd.toml"], "runtimes.runc]"); has != (test.runc != "") {
			t.Errorf("with runc at %q, containerd.toml has the runtime runc: %t", test.runc, has)
		}
		var kubelet map[string]any
		err := yaml.Unmarshal([]byte(texts["kubelet.yaml"]), &kubelet)
		if err != nil || kubelet["address"] != nodeAddress {
			t.Errorf("kubelet.yaml: %v, address %v", err, kubelet["address"])
		}
		var network map[string]any
		if err := json.Unmarshal([]byte(texts["10-ptp.conflist"]), &network); err != nil {
			t.Errorf("10-ptp.conflist: %v", err)
		}
		for name, text := range texts {
			if strings.Contains(text, "<no value>") {
				t.Errorf("%s has a value that is missing:\n%s", name, text)
			}
		}
	}
}

// TestCheck_LeavesNoControlGroup tries on this system what a node does.
func TestCheck_LeavesNoControlGroup(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("control groups and namespaces need root")
	}
	file := filepath.Join(t.TempDir(), "node.json")
	text, err := json.Marshal(config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := check(t.Context(), file); err != nil {
		t.Skip("a node cannot run here: ", err)
	}
	groups, err := filepath.Glob("/sys/fs/cgroup/*/agents-node-" + strconv.Itoa(os.Getpid()))
	if err != nil || len(groups) > 0 {
		t.Errorf("control groups after the check: %q, %v", groups, err)
	}
}

func TestCommand_RefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "node.json")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		nil, {"down", "-config", file}, {"up", "-config", file + "x"}, {"up", "-unknown"},
	} {
		if err := command(args); err == nil {
			t.Errorf("command(%q) succeeded", args)
		}
	}
}

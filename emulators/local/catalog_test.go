package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/emulators/images"
	"agents.example/controlplane/emulators/node"
)

// entry writes an entry of the catalog with one version, and returns its file.
func entry(t *testing.T, image string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "entry.json")
	text := `{"id": "assistant", "name": "A", "default_version": "1", "port": 4000, "versions": [
		{"version": "1", "state": "available", "image": "` + image + `"}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestCatalog_FindsImagesForARealNode(t *testing.T) {
	t.Parallel()
	file := entry(t, "./agent.tar")
	tarball := filepath.Join(filepath.Dir(file), "agent.tar")
	if err := os.WriteFile(tarball, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := parse([]string{
		"-node", "real", "-catalog", file, "-catalog", "openclaw", "-host", "m.example:443=127.0.0.1:1",
		"-env", "A=b=c",
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]node.Image{"assistant-1": {Tarball: tarball}}
	if diff := cmp.Diff(want, s.catalog.images); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	for name, source := range s.catalog.recipes {
		if want := (images.Source{Recipe: "openclaw", Version: strings.TrimPrefix(name, "openclaw-")}); source != want {
			t.Errorf("the image %s is made by %v", name, source)
		}
	}
	if len(s.catalog.entries) != 2 || s.catalog.first().ID != "assistant" || s.catalog.first().Port != 4000 {
		t.Errorf("entries %+v, want assistant first", s.catalog.entries)
	}
	if s.env["A"] != "b=c" || s.node.Hosts["m.example:443"] != "127.0.0.1:1" {
		t.Errorf("variables %v, hosts %v", s.env, s.node.Hosts)
	}
}

// TestCatalog_FindsProgramsForSimulatedNodes makes references that an entry may have.
func TestCatalog_FindsProgramsForSimulatedNodes(t *testing.T) {
	t.Parallel()
	file := entry(t, ".")
	dir := filepath.Dir(file)
	_, err := parse([]string{"-catalog", file}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "entrypoint") {
		t.Errorf("a directory without a program: %v", err)
	}
	if err := os.WriteFile(
		filepath.Join(dir, "entrypoint"),
		[]byte("#!/bin/sh\n"),
		0o700,
	); err != nil { //nolint:gosec // it runs
		t.Fatal(err)
	}
	s, err := parse([]string{"-catalog", file}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	i := s.catalog.entries[0]
	if err := i.Check(); err != nil || s.catalog.programs[i.Versions[0].Reference] != dir {
		t.Errorf("%v: programs %v", err, s.catalog.programs)
	}
}

func TestCatalog_RefusesUnknownFields(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "entry.json")
	if err := os.WriteFile(file, []byte(`{"id": "a", "ports": 1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := parse([]string{"-catalog", file}, io.Discard); err == nil || !strings.Contains(err.Error(), `"ports"`) {
		t.Errorf("error %v, want one about ports", err)
	}
}

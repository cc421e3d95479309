package storageemu_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"agents.example/controlplane/emulators/storageemu"
	"agents.example/controlplane/infra/storage"
	"agents.example/controlplane/shared/clientrelease"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/testtier"
)

func TestMain(m *testing.M) {
	testtier.SilenceLogs()
	m.Run()
}

// open starts an emulator and returns the adapter that calls it.
func open(t *testing.T, o storageemu.Options) *storage.Clients {
	t.Helper()
	s, err := storageemu.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	c, err := storage.Open(t.Context(), storage.Options{Bucket: "builds", EmulatorHost: s.Addr})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func put(t *testing.T, dir, object, content string) {
	t.Helper()
	file := filepath.Join(dir, filepath.FromSlash(object))
	err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o644))
	if err != nil {
		t.Fatal(err)
	}
}

func TestServer_ServesWhatTheAdapterReads(t *testing.T) {
	t.Parallel()
	const version = "1.20261127.203023"
	dir := t.TempDir()
	put(t, dir, "source/other", "x")
	put(t, dir, clientrelease.ReleaseObject(version), `{"version": "`+version+`", "files": [{"name": "a", "object": "o/a"}]}`)
	made := []string{}
	c := open(t, storageemu.Options{Dir: dir, Make: func(_ context.Context, object string) error {
		made = append(made, object)
		if object != "o/a" {
			return fs.ErrNotExist
		}
		put(t, dir, object, "made")
		return nil
	}})
	versions, err := c.Versions(t.Context())
	if err != nil || !slices.Equal(versions, []string{version}) {
		t.Errorf("versions = %q, %v, want one", versions, err)
	}
	r, err := c.Release(t.Context(), version)
	if err != nil || len(r.Files) != 1 {
		t.Fatalf("release = %+v, %v, want one file", r, err)
	}
	for range 2 {
		body, err := c.Open(t.Context(), r.Files[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := body.Close(); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(made, []string{"o/a"}) {
		t.Errorf("made %q, want the missing object once", made)
	}
	if _, err := c.Open(t.Context(), clientrelease.File{Object: "unknown"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("an unknown object: %v, want not found", err)
	}
	if _, err := c.Open(t.Context(), clientrelease.File{Object: "../secret"}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("an object outside of the directory: %v, want it refused", err)
	}
}

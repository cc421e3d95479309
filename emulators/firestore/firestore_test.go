//go:build unix

package firestore_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	firestoreclient "cloud.google.com/go/firestore"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/emulators/firestore"
)

func start(t *testing.T, options firestore.Options) *firestore.Emulator {
	t.Helper()
	emulator, err := firestore.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := emulator.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return emulator
}

func client(t *testing.T, host, project, database string) *firestoreclient.Client {
	t.Helper()
	c, err := firestoreclient.NewClientWithDatabase(t.Context(), project, database,
		option.WithEndpoint(host), option.WithoutAuthentication(), option.WithTelemetryDisabled(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestEmulator(t *testing.T) {
	t.Parallel()
	emulator := start(t, firestore.Options{})
	document := client(t, emulator.Host, "project-a", "dev").Doc("agents/one")
	if _, err := document.Set(t.Context(), map[string]any{"name": "first"}); err != nil {
		t.Fatal(err)
	}

	t.Run("projects are apart", func(t *testing.T) {
		_, err := client(t, emulator.Host, "project-b", "dev").Doc("agents/one").Get(t.Context())
		if status.Code(err) != codes.NotFound {
			t.Errorf("another project answers %v, want NotFound", err)
		}
	})

	t.Run("attach leaves it running", func(t *testing.T) {
		attached, err := firestore.Start(t.Context(), firestore.Options{Attach: emulator.Host})
		if err != nil {
			t.Fatal(err)
		}
		if attached.Host != emulator.Host || attached.Done() != nil {
			t.Errorf("attached to %q", attached.Host)
		}
		if err := attached.Close(); err != nil {
			t.Error(err)
		}
		if _, err := document.Get(t.Context()); err != nil {
			t.Error(err)
		}
	})

	t.Run("export and import", func(t *testing.T) {
		path, err := emulator.Export(t.Context(), "project-a", "dev", t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		again := start(t, firestore.Options{Dir: t.TempDir(), Import: path})
		got, err := client(t, again.Host, "project-a", "dev").Doc("agents/one").Get(t.Context())
		if err != nil || got.Data()["name"] != "first" {
			t.Errorf("after the import: %v, %v", got.Data(), err)
		}
	})

	t.Run("export to nowhere", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := emulator.Export(t.Context(), "project-a", "dev", file); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("error %v", err)
		}
	})
}

func TestStartFailures(t *testing.T) {
	t.Parallel()
	if _, err := firestore.Start(t.Context(), firestore.Options{Attach: "127.0.0.1:1"}); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("attach to nothing: %v", err)
	}
}

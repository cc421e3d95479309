//go:build unix

package firestoreemu_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	firestoreclient "cloud.google.com/go/firestore"
	"github.com/google/uuid"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/emulators/firestoreemu"
	"agents.example/controlplane/emulators/firestoreemu/embedded"
	"agents.example/controlplane/emulators/gcloud"
)

func client(t testing.TB, host, project, database string) *firestoreclient.Client {
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

func TestEmulator_LifeCycle(t *testing.T) {
	t.Parallel()
	for _, emulator := range emulators() {
		t.Run(emulator.Kind, func(t *testing.T) {
			t.Parallel()
			testLifeCycle(t, emulator)
		})
	}
}

func testLifeCycle(t *testing.T, emulator *firestoreemu.Emulator) {
	project := "p-" + uuid.NewString()
	document := client(t, emulator.Host, project, "dev").Doc("agents/one")
	if _, err := document.Set(t.Context(), map[string]any{"name": "first"}); err != nil {
		t.Fatal(err)
	}

	t.Run("projects are isolated", func(t *testing.T) {
		_, err := client(t, emulator.Host, "p-"+uuid.NewString(), "dev").Doc("agents/one").Get(t.Context())
		if status.Code(err) != codes.NotFound {
			t.Errorf("Get in another project: error = %v, want NotFound", err)
		}
	})

	t.Run("closing an attached emulator leaves it running", func(t *testing.T) {
		attached, err := firestoreemu.Start(t.Context(), firestoreemu.Options{Attach: emulator.Host})
		if err != nil {
			t.Fatal(err)
		}
		if attached.Host != emulator.Host {
			t.Errorf("Host = %q, want %q", attached.Host, emulator.Host)
		}
		if attached.Kind != "attached" {
			t.Errorf("Kind = %q, want attached", attached.Kind)
		}
		if attached.Done() != nil {
			t.Error("Done is not nil for an attached emulator")
		}
		if err := attached.Close(); err != nil {
			t.Error(err)
		}
		if _, err := document.Get(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestEmbedded_ImportRestoresAnExport: every project then has the documents in its database of the same id.
func TestEmbedded_ImportRestoresAnExport(t *testing.T) {
	t.Parallel()
	serve := func(o embedded.Options) *embedded.Server {
		t.Helper()
		s, err := embedded.Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	original, project, path := serve(embedded.Options{}), "p-"+uuid.NewString(), filepath.Join(t.TempDir(), "export")
	document := client(t, original.Addr, project, "dev").Doc("agents/one")
	_, err := document.Set(t.Context(), map[string]any{"name": "first"})
	if err != nil {
		t.Fatal(err)
	}
	if err := original.Export(project, "dev", path); err != nil {
		t.Fatal(err)
	}
	imported := serve(embedded.Options{Import: path})
	for _, project := range []string{project, "p-" + uuid.NewString()} {
		got, err := client(t, imported.Addr, project, "dev").Doc("agents/one").Get(t.Context())
		if err != nil || got.Data()["name"] != "first" {
			t.Errorf("document in project %s after the import = %v, %v; want name first", project, got.Data(), err)
		}
	}
	_, err = client(t, imported.Addr, project, "other").Doc("agents/one").Get(t.Context())
	if status.Code(err) != codes.NotFound {
		t.Errorf("Get in another database: error = %v, want NotFound", err)
	}
	if err := original.Export(project, "dev", filepath.Join(path, "below")); err == nil ||
		!strings.Contains(err.Error(), path) {
		t.Errorf("Export below a file: error = %v, want one that names %s", err, path)
	}
	_, err = embedded.Start(t.Context(), embedded.Options{Import: filepath.Join(t.TempDir(), "none")})
	if err == nil || !strings.Contains(err.Error(), "read the") {
		t.Errorf("import of a file that does not exist: error = %v, want one that says so", err)
	}
}

// TestListen_ReportsCurrentState: a listener may miss intermediate states but must receive the current one.
func TestListen_ReportsCurrentState(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, host string) {
		c := client(t, host, "p-"+uuid.NewString(), "dev")
		document := c.Doc("c/listened")
		changes := document.Snapshots(t.Context())
		defer changes.Stop()
		other := c.Doc("c/other").Snapshots(t.Context())
		defer other.Stop()
		next := func(step string, listener *firestoreclient.DocumentSnapshotIterator, want any) {
			t.Helper()
			got, err := listener.Next()
			if err != nil {
				t.Fatalf("%s: %v", step, err)
			}
			if n := got.Data()["n"]; n != want {
				t.Errorf("%s: n = %v, want %v", step, n, want)
			}
		}
		next("before the first write", changes, nil)
		next("other document before its first write", other, nil)
		for n := range int64(3) {
			if _, err := document.Set(t.Context(), map[string]any{"n": n}); err != nil {
				t.Fatal(err)
			}
			next("after a write", changes, n)
			if _, err := document.Delete(t.Context()); err != nil {
				t.Fatal(err)
			}
			next("after the deletion", changes, nil)
		}
		if _, err := c.Doc("c/other").Set(t.Context(), map[string]any{"n": 7}); err != nil {
			t.Fatal(err)
		}
		next("other document after a write", other, int64(7))
	})
}

// TestListen_ReportsTheResultsOfAQuery: a listener receives the results, and those that a commit adds or takes away.
func TestListen_ReportsTheResultsOfAQuery(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, host string) {
		c := client(t, host, "p-"+uuid.NewString(), "dev")
		set := func(id string, kind string) {
			t.Helper()
			if _, err := c.Doc("listened/"+id).Set(t.Context(), map[string]any{"kind": kind}); err != nil {
				t.Fatal(err)
			}
		}
		set("a", "wanted")
		set("b", "other")
		results := c.Collection("listened").Where("kind", "==", "wanted").Snapshots(t.Context())
		defer results.Stop()
		wantNext := func(step string, want ...string) {
			t.Helper()
			got, err := results.Next()
			if err != nil {
				t.Fatalf("%s: %v", step, err)
			}
			var ids []string
			for _, change := range got.Changes {
				ids = append(ids, fmt.Sprint(change.Kind, change.Doc.Ref.ID))
			}
			if !slices.Equal(ids, want) {
				t.Errorf("%s: changes %v, want %v", step, ids, want)
			}
		}
		added, removed := fmt.Sprint(firestoreclient.DocumentAdded), fmt.Sprint(firestoreclient.DocumentRemoved)
		wantNext("at first", added+"a")
		set("c", "other")
		set("d", "wanted")
		wantNext("after two writes, one of a result", added+"d")
		set("b", "wanted")
		wantNext("after a change into a result", added+"b")
		set("a", "other")
		wantNext("after a change out of the results", removed+"a")
		if _, err := c.Doc("listened/d").Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantNext("after a deletion", removed+"d")
	})
}

func TestStart_Fails(t *testing.T) {
	t.Parallel()
	if _, err := firestoreemu.Start(t.Context(), firestoreemu.Options{Attach: "127.0.0.1:1"}); err == nil ||
		!strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("attach to an unused port: error = %v, want one that names the address", err)
	}
	for name, options := range map[string]firestoreemu.Options{
		"indexes are not JSON":   {Choice: gcloud.Embedded, Indexes: []byte("{")},
		"an index has no fields": {Choice: gcloud.Embedded, Indexes: []byte(`{"indexes": [{}]}`)},
	} {
		if _, err := firestoreemu.Start(t.Context(), options); err == nil ||
			!strings.Contains(err.Error(), "read the") {
			t.Errorf("%s: error = %v, want one containing \"read the\"", name, err)
		}
	}
}

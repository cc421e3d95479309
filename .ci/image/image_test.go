// Package image tests the image as build makes it: onto a base and into a registry of the test's own, and then as a
// runtime would see it.
package image

import (
	"archive/tar"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// base is an image with what the real base has of a configuration: a platform and a user without rights.
func base(t *testing.T, host string) string {
	t.Helper()
	image, err := mutate.ConfigFile(empty.Image,
		&v1.ConfigFile{OS: "linux", Architecture: "amd64", Config: v1.Config{User: "65532"}})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(host + "/base:nonroot")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, image); err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return host + "/base@" + digest.String()
}

// build runs the script, and returns the image that it names and the directory of the bills of materials.
func build(t *testing.T) (image v1.Image, sboms string) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	sboms = t.TempDir()
	cmd := exec.CommandContext(t.Context(), "./build", host+"/controlplane", sboms)
	cmd.Env = append(os.Environ(), "BASE_IMAGE="+base(t, host))
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	ref, err := name.NewDigest(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatalf("build prints %q: %v", out, err)
	}
	if image, err = remote.Image(ref); err != nil {
		t.Fatal(err)
	}
	return image, sboms
}

// unpack writes the files of an image below a directory and returns their names.
func unpack(t *testing.T, image v1.Image, dir string) []string {
	t.Helper()
	files := mutate.Extract(image)
	defer files.Close() //nolint:errcheck // reading is over
	var names []string
	for r := tar.NewReader(files); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		path := filepath.Join(dir, filepath.Clean("/"+h.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, h.FileInfo().Mode())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(f, r); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		names = append(names, filepath.Clean("/"+h.Name))
	}
}

// TestImage builds the image once and looks at it from all sides.
func TestImage(t *testing.T) {
	image, sboms := build(t)
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532" || config.OS != "linux" {
		t.Errorf("runs as %q on %s, want the base's user without rights", config.Config.User, config.OS)
	}
	dir := t.TempDir()
	names := unpack(t, image, dir)
	for binary, row := range map[string]struct{ lacks, links string }{
		"api":      {lacks: "GOOGLE_CLOUD_PROJECT", links: "cloud.google.com/go/firestore"},
		"accounts": {lacks: "GOOGLE_CLOUD_PROJECT", links: "cloud.google.com/go/firestore"},
		"worker":   {lacks: "GOOGLE_CLOUD_PROJECT", links: "cloud.google.com/go/firestore"},
		"notifier": {lacks: "GOOGLE_CLOUD_PROJECT", links: "cloud.google.com/go/pubsub"},
		"gate":     {lacks: "GOOGLE_CLOUD_PROJECT", links: "cloud.google.com/go/secretmanager"},
		"router":   {lacks: "CELL_DOMAIN", links: "k8s.io/client-go"},
		"front":    {lacks: "is required", links: "go-envconfig"},
	} {
		t.Run(binary, func(t *testing.T) {
			// Without configuration every binary says what it lacks: so it runs, with nothing but what is in the image.
			cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "ko-app", binary))
			cmd.Env = []string{"FUNCTION_TARGET=any"}
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 ||
				!strings.Contains(string(out), row.lacks) {
				t.Errorf("%v: %s", err, out)
			}
			found, err := filepath.Glob(filepath.Join(sboms, binary, "*.json"))
			if err != nil || len(found) == 0 {
				t.Fatalf("no bill of materials: %v", err)
			}
			b, err := os.ReadFile(found[0])
			if err != nil || !strings.Contains(string(b), row.links) {
				t.Errorf("%s does not name what is linked: %v", found[0], err)
			}
		})
	}
	t.Run("story", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-timeout=40m", "-run=TestStoryAsDeployed",
			"./emulators/cloud", "-binaries="+filepath.Join(dir, "ko-app"))
		cmd.Dir = filepath.Join("..", "..")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("with the image's binaries: %v\n%s", err, out)
		}
	})
	for _, n := range names {
		if !strings.HasPrefix(n, "/ko-app/") {
			t.Errorf("the image holds %s, which is no binary", n)
		}
	}
	// The cell's objects and agents' pods run these, too.
	for _, binary := range []string{"sampleagent", "placeholder"} {
		if !slices.Contains(names, "/ko-app/"+binary) {
			t.Errorf("the image has no /ko-app/%s", binary)
		}
	}
}

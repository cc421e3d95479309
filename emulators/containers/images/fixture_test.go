package images_test

import (
	"archive/tar"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"agents.example/controlplane/emulators/containers/images"
)

// serve serves images until the test ends, and returns the registry and its address.
func serve(t *testing.T, o images.Options) (r *images.Registry, addr string, err error) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	r, err = images.Serve(t.Context(), listener, o)
	if err == nil {
		t.Cleanup(func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return r, listener.Addr().String(), err
}

// pulled serves one image, and pulls it as a node does.
func pulled(t *testing.T, source images.Source) v1.Image {
	t.Helper()
	return pulledFrom(t, images.Options{Images: map[string]images.Source{"it": source}})
}

// pulledFrom serves images, and pulls the one that is called "it".
func pulledFrom(t *testing.T, o images.Options) v1.Image {
	t.Helper()
	r, addr, err := serve(t, o)
	if err != nil {
		t.Fatal(err)
	}
	return pull(t, addr, r.References["it"])
}

func pull(t *testing.T, addr, reference string) v1.Image {
	t.Helper()
	path, found := strings.CutPrefix(reference, images.Host+"/")
	if !found || !strings.Contains(path, "@sha256:") {
		t.Fatalf("reference = %q, want one of %s by digest", reference, images.Host)
	}
	ref, err := name.ParseReference(addr + "/" + path)
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(ref, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatalf("pull %s: %v", reference, err)
	}
	return image
}

// refused serves one image, and returns why it cannot.
func refused(t *testing.T, source images.Source) string {
	t.Helper()
	_, _, err := serve(t, images.Options{Images: map[string]images.Source{"it": source}})
	if err == nil {
		t.Fatal("the image is served, want an error")
	}
	return err.Error()
}

// files returns the entries of an image's filesystem by path.
func files(t *testing.T, image v1.Image) map[string]tar.Header {
	t.Helper()
	content := mutate.Extract(image)
	defer content.Close() //nolint:errcheck // it is only read
	found := map[string]tar.Header{}
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if err == io.EOF {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		found[header.Name] = *header
	}
}

func config(t *testing.T, image v1.Image) v1.ConfigFile {
	t.Helper()
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return *file
}

func digest(t *testing.T, image v1.Image) string {
	t.Helper()
	d, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

// layers returns the digests of an image's uncompressed layers, which do not depend on how it is stored.
func layers(t *testing.T, image v1.Image) (digests []string) {
	t.Helper()
	all, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		content, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		sum, _, err := v1.SHA256(content)
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, sum.String())
	}
	return digests
}

// agent returns an image of an agent for this machine.
func agent(t *testing.T) v1.Image { return agentAs(t, "1000", "/agent") }

func agentAs(t *testing.T, user string, entrypoint ...string) v1.Image {
	t.Helper()
	return platformImage(t, runtime.GOARCH, v1.Config{User: user, Entrypoint: entrypoint})
}

func platformImage(t *testing.T, arch string, c v1.Config) v1.Image {
	t.Helper()
	image, err := random.Image(1000, 2)
	if err != nil {
		t.Fatal(err)
	}
	file := config(t, image)
	file.OS, file.Architecture, file.Config = "linux", arch, c
	if image, err = mutate.ConfigFile(image, &file); err != nil {
		t.Fatal(err)
	}
	return image
}

// otherArch is not the architecture of this machine.
func otherArch() string {
	if runtime.GOARCH == "arm64" {
		return "amd64"
	}
	return "arm64"
}

// programFile is a static program.
var programFile = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "program-")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "pause")
	build := exec.Command("go", "build", "-o", file, "../pause")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	build.Stderr = os.Stderr
	return file, build.Run()
})

// copyProgram copies a static program.
func copyProgram(t *testing.T, to string) {
	t.Helper()
	file, err := programFile()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestMain(m *testing.M) {
	code := m.Run()
	if file, err := programFile(); err == nil {
		_ = os.RemoveAll(filepath.Dir(file))
	}
	os.Exit(code)
}

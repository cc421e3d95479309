package images_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"agents.example/controlplane/emulators/containers/images"
)

// save writes a file as docker save does.
func save(t *testing.T, saved map[string]v1.Image) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "agents.tar")
	tagged := map[name.Tag]v1.Image{}
	for tag, image := range saved {
		parsed, err := name.NewTag(tag)
		if err != nil {
			t.Fatal(err)
		}
		tagged[parsed] = image
	}
	if err := tarball.MultiWriteToFile(file, tagged); err != nil {
		t.Fatal(err)
	}
	return file
}

// export writes a file with an OCI layout, after a change of its files.
func export(t *testing.T, index v1.ImageIndex, change func(dir string)) string {
	t.Helper()
	dir := t.TempDir()
	if _, err := layout.Write(dir, index); err != nil {
		t.Fatal(err)
	}
	change(dir)
	var b bytes.Buffer
	archive := tar.NewWriter(&b)
	if err := archive.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "layout.tar")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func unchanged(string) {}

// named adds an image to an index as builders do.
func named(tag string, image v1.Image) mutate.IndexAddendum {
	return mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
		Annotations: map[string]string{"io.containerd.image.name": tag},
		Platform:    &v1.Platform{OS: "linux", Architecture: runtime.GOARCH},
	}}
}

// forPlatform adds an image to an index of several platforms.
func forPlatform(arch string, image v1.Image) mutate.IndexAddendum {
	return mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
		Platform: &v1.Platform{OS: "linux", Architecture: arch},
	}}
}

// platforms returns an index of an image for this machine and of one for another, with an attestation.
func platforms(t *testing.T, image v1.Image) v1.ImageIndex {
	t.Helper()
	attestation := mutate.IndexAddendum{Add: platformImage(t, "unknown", v1.Config{}), Descriptor: v1.Descriptor{
		Annotations: map[string]string{"vnd.docker.reference.type": "attestation-manifest"},
	}}
	return mutate.AppendManifests(empty.Index, attestation,
		forPlatform(otherArch(), platformImage(t, otherArch(), v1.Config{User: "1"})),
		forPlatform(runtime.GOARCH, image))
}

func TestServe_ReadsWhatDockerSaves(t *testing.T) {
	t.Parallel()
	image := agent(t)
	plain := save(t, map[string]v1.Image{"agent:dev": image})
	b, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	zipped := filepath.Join(t.TempDir(), "agent.tar.gz")
	if err := os.WriteFile(zipped, compressed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	two := save(t, map[string]v1.Image{"agent:dev": image, "other:1": agent(t)})
	for given, file := range map[string]string{
		"one image": plain, "compressed": zipped, "one of two": two + "#agent:dev",
		"one of two by another spelling": two + "#docker.io/library/agent:dev",
	} {
		got := pulled(t, images.Source{Tarball: file})
		if c := config(t, got).Config; c.User != "1000" || !slices.Equal(c.Entrypoint, []string{"/agent"}) {
			t.Errorf("%s: configuration %+v, want that of the saved image", given, c)
		}
		if got, want := layers(t, got), layers(t, image); !slices.Equal(got, want) {
			t.Errorf("%s: layers %v, want %v", given, got, want)
		}
	}
}

func TestServe_ReadsOCILayouts(t *testing.T) {
	t.Parallel()
	image := agent(t)
	one := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: image})
	two := mutate.AppendManifests(empty.Index, named("docker.io/library/agent:dev", image), named("other:1", agent(t)))
	nested := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: platforms(t, image)})
	for given, file := range map[string]string{
		"one image":         export(t, one, unchanged),
		"one of two":        export(t, two, unchanged) + "#agent:dev",
		"several platforms": export(t, nested, unchanged),
	} {
		if got, want := digest(t, pulled(t, images.Source{Tarball: file})), digest(t, image); got != want {
			t.Errorf("%s: digest %s, want %s", given, got, want)
		}
	}
}

// damage changes a layer of a layout.
func damage(t *testing.T, image v1.Image) func(dir string) {
	all, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := all[0].Digest()
	if err != nil {
		t.Fatal(err)
	}
	return func(dir string) {
		file := filepath.Join(dir, "blobs", "sha256", digest.Hex)
		if err := os.WriteFile(file, []byte("other"), fs.ModePerm); err != nil {
			t.Fatal(err)
		}
	}
}

func TestServe_SaysWhatIsWrongWithAFile(t *testing.T) {
	t.Parallel()
	text := filepath.Join(t.TempDir(), "agent.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("not an archive ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	image := agent(t)
	one := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: image})
	two := mutate.AppendManifests(empty.Index, named("agent:dev", image), named("other:1", agent(t)))
	saved := save(t, map[string]v1.Image{"agent:dev": image, "other:1": agent(t)})
	foreign := platformImage(t, otherArch(), v1.Config{User: "1000"})
	foreignIndex := mutate.AppendManifests(empty.Index, forPlatform(otherArch(), foreign))
	for _, row := range []struct{ given, file, want string }{
		{given: "no file", file: "/no/such/agent.tar", want: "no file /no/such/agent.tar"},
		{given: "a directory", file: t.TempDir(), want: "is not a file"},
		{given: "a text", file: text, want: "is not an image"},
		{given: "an archive of other files", file: tarOf(t, "README", "hello"), want: "it has neither manifest.json"},
		{given: "two saved images", file: saved, want: "#agent:dev"},
		{given: "two images of a layout", file: export(t, two, unchanged), want: "#agent:dev"},
		{given: "an unknown name", file: saved + "#agent:prod", want: "holds no image agent:prod, only"},
		{
			given: "an unknown name of a layout", file: export(t, two, unchanged) + "#agent:prod",
			want: "holds no image agent:prod, only",
		},
		{given: "a damaged layer", file: export(t, one, damage(t, image)), want: "is damaged"},
		{
			given: "another platform", file: save(t, map[string]v1.Image{"agent:dev": foreign}),
			want: "--platform linux/" + runtime.GOARCH,
		},
		{
			given: "an index of another platform", file: export(t, foreignIndex, unchanged),
			want: "it is for linux/" + otherArch(),
		},
	} {
		if got := refused(t, images.Source{Tarball: row.file}); !strings.Contains(got, row.want) {
			t.Errorf("%s: error %q, want one with %q", row.given, got, row.want)
		}
	}
}

// tarOf writes an archive of one file.
func tarOf(t *testing.T, path, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "some.tar")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(f)
	if err := archive.WriteHeader(&tar.Header{Name: path, Mode: 0o600, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}

// A layer that docker saved is named in the configuration by the digest of its content.
func TestServe_RefusesADamagedSavedLayer(t *testing.T) {
	t.Parallel()
	image := agent(t)
	file := config(t, image)
	file.RootFS.DiffIDs[0], file.RootFS.DiffIDs[1] = file.RootFS.DiffIDs[1], file.RootFS.DiffIDs[0]
	swapped, err := mutate.ConfigFile(image, &file)
	if err != nil {
		t.Fatal(err)
	}
	got := refused(t, images.Source{Tarball: save(t, map[string]v1.Image{"agent:dev": swapped})})
	if want := "is damaged"; !strings.Contains(got, want) {
		t.Errorf("error %q, want one with %q", got, want)
	}
}

// The kubelet refuses such images only when an agent starts.
func TestServe_WarnsOfImagesThatNoAgentCanRun(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		user       string
		entrypoint []string
		want       string
	}{
		{user: "1000", entrypoint: []string{"/agent"}},
		{user: "1000:0", entrypoint: []string{"/agent"}},
		{user: "", entrypoint: []string{"/agent"}, want: "runs as root"},
		{user: "0:1000", entrypoint: []string{"/agent"}, want: "runs as root"},
		{user: "00", entrypoint: []string{"/agent"}, want: "runs as root"},
		{user: "root", entrypoint: []string{"/agent"}, want: "runs as root"},
		{user: "node", entrypoint: []string{"/agent"}, want: `has the user "node"`},
		{user: "1000", want: "has neither ENTRYPOINT nor CMD"},
	} {
		file := save(t, map[string]v1.Image{"agent:dev": agentAs(t, row.user, row.entrypoint...)})
		r, _, err := serve(t, images.Options{Images: map[string]images.Source{"agent": {Tarball: file}}})
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(r.Warnings, "\n")
		if (row.want == "") != (got == "") || !strings.Contains(got, row.want) {
			t.Errorf("user %q, entrypoint %v: warnings %q, want %q", row.user, row.entrypoint, got, row.want)
		}
	}
}

package images_test

import (
	"archive/tar"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/emulators/containers/images"
)

func TestServe_ProgramsRunAsAUserWithANumber(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	copyProgram(t, filepath.Join(dir, "front"))
	copyProgram(t, filepath.Join(dir, "router"))
	if err := os.WriteFile(filepath.Join(dir, ".lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	roots := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, []byte("certificates"), 0o600); err != nil {
		t.Fatal(err)
	}
	image := pulledFrom(t, images.Options{Roots: roots, Images: map[string]images.Source{"it": {Programs: dir}}})
	c := config(t, image)
	if c.OS != "linux" || c.Architecture != runtime.GOARCH || c.Config.User != "65532:65532" {
		t.Errorf("platform and user = %s/%s %s, want those of this machine and 65532:65532", c.OS, c.Architecture,
			c.Config.User)
	}
	found := files(t, image)
	var paths []string
	for path, header := range found {
		paths = append(paths, path)
		if !header.ModTime.Equal(time.Unix(0, 0)) { // the digest would change with it
			t.Errorf("%s is of %s, want a fixed time", path, header.ModTime)
		}
	}
	slices.Sort(paths)
	const trusted = "etc/ssl/certs/ca-certificates.crt"
	want := []string{"data", trusted, "ko-app", "ko-app/front", "ko-app/router", "tmp"}
	if !slices.Equal(paths, want) {
		t.Errorf("files = %v, want %v", paths, want)
	}
	modes := map[string]int64{"ko-app/front": 0o755, "data": 0o750, "tmp": 0o1777, trusted: 0o755}
	for path, mode := range modes {
		if got := found[path].Mode & 0o7777; got != mode {
			t.Errorf("mode of %s = %o, want %o", path, got, mode)
		}
	}
	if got := found["data"]; got.Typeflag != tar.TypeDir || got.Uid != 65532 || got.Gid != 65532 {
		t.Errorf("/data belongs to %d:%d, want the user of the image", got.Uid, got.Gid)
	}
}

func TestServe_AProgramIsTheEntrypoint(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pause")
	copyProgram(t, file)
	image := pulled(t, images.Source{Program: file})
	if got := config(t, image).Config.Entrypoint; !slices.Equal(got, []string{"/pause"}) {
		t.Errorf("entrypoint = %v, want /pause", got)
	}
	if _, has := files(t, image)["pause"]; !has {
		t.Error("the image has no /pause")
	}
}

// The cluster's pods name the image by digest, so a restart must not change it.
func TestServe_TheSameProgramsHaveTheSameDigest(t *testing.T) {
	t.Parallel()
	var digests []string
	for age := range 2 {
		dir := t.TempDir()
		copyProgram(t, filepath.Join(dir, "front"))
		then := time.Now().Add(-time.Duration(age) * time.Hour)
		if err := os.Chtimes(filepath.Join(dir, "front"), then, then); err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest(t, pulled(t, images.Source{Programs: dir})))
	}
	if digests[0] != digests[1] {
		t.Errorf("digests = %v, want the same one twice", digests)
	}
}

func TestServe_RefusesProgramsThatCannotRun(t *testing.T) {
	t.Parallel()
	script := t.TempDir()
	if err := os.WriteFile(filepath.Join(script, "front"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	for _, row := range []struct {
		given string
		from  images.Source
		want  string
	}{
		{given: "no directory", from: images.Source{Programs: filepath.Join(empty, "none")}, want: "no such file"},
		{given: "an empty directory", from: images.Source{Programs: empty}, want: "has no executable file"},
		{given: "a script", from: images.Source{Programs: script}, want: "is not a program for Linux"},
		{given: "a program with libraries", from: images.Source{Program: "/bin/sh"}, want: "CGO_ENABLED=0"},
		{given: "nothing", from: images.Source{}, want: "set exactly one"},
		{given: "two sources", from: images.Source{Programs: script, Reference: "agent"}, want: "set exactly one"},
	} {
		if got := refused(t, row.from); !strings.Contains(got, row.want) {
			t.Errorf("%s: error %q, want one with %q", row.given, got, row.want)
		}
	}
}

// A pod that could push would replace the images of others.
func TestServe_RefusesPushes(t *testing.T) {
	t.Parallel()
	_, addr, err := serve(t, images.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for method, path := range map[string]string{
		http.MethodPut: "/v2/it/manifests/latest", http.MethodPost: "/v2/it/blobs/uploads/",
		http.MethodDelete: "/v2/it/manifests/latest",
	} {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close() // nothing is read
		if res.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s %s answers with status %d, want %d", method, path, res.StatusCode, http.StatusMethodNotAllowed)
		}
	}
}

//go:build unix

package terraform_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"agents.example/controlplane/shared/testtier"
)

// registry answers as a registry of images does, with a digest for each tag.
func registry(w http.ResponseWriter, req *http.Request) {
	digests := map[string]string{"go:1": strings.Repeat("1", 64), "tools/terraform:2": strings.Repeat("2", 64)}
	name, tag, isManifest := strings.Cut(strings.TrimPrefix(req.URL.Path, "/v2/"), "/manifests/")
	digest, known := digests[name+":"+tag]
	if isManifest && !known {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/vnd.oci.image.index.v1+json")
	w.Header().Set("Docker-Content-Digest", "sha256:"+digest)
	w.Header().Set("Content-Length", "2")
	if req.Method == http.MethodGet {
		_, _ = w.Write([]byte("{}")) // the client reports it
	}
}

// TestLock_PinsImagesAndProvider runs the script with a registry, and with a Terraform that writes its arguments.
func TestLock_PinsImagesAndProvider(t *testing.T) {
	t.Parallel()
	testtier.RequireFull(t, "builds the tool that reads digests")
	server := httptest.NewServer(http.HandlerFunc(registry))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	p := newProject(t, 1)
	p.write(t, filepath.Join(p.bin, "terraform"), "#!/bin/sh\necho \"$@\" >.terraform.lock.hcl\n", 0o755)
	for _, name := range []string{"go.mod", "go.sum"} {
		p.write(t, filepath.Join(p.root, ".ci/image", name), read(t, filepath.Join("../.ci/image", name)), 0o600)
	}
	p.write(t, filepath.Join(p.root, "go.mod"), "module test\n", 0o600)
	images := filepath.Join(p.root, "terraform/build/images")
	lock := filepath.Join(p.root, "terraform/build/images.lock")
	p.write(t, images, "# a comment\n\n_GO        "+host+"/go:1\n_TERRAFORM "+host+"/tools/terraform:2\n", 0o600)
	p.succeed(t.Context(), t, "lock.sh")
	want := "_GO=" + host + "/go:1@sha256:" + strings.Repeat("1", 64) + "\n" +
		"_TERRAFORM=" + host + "/tools/terraform:2@sha256:" + strings.Repeat("2", 64) + "\n"
	if got := read(t, lock); got != want {
		t.Errorf("images.lock is\n%s\nwant\n%s", got, want)
	}
	locked := read(t, filepath.Join(p.root, "terraform/.terraform.lock.hcl"))
	if !strings.HasPrefix(locked, "providers lock ") || !strings.Contains(locked, "-platform=linux_amd64") {
		t.Errorf("locks the provider with %q", locked)
	}
	p.write(t, images, "_GO "+host+"/go:unknown\n", 0o600)
	if _, out, err := p.run(t.Context(), t, "lock.sh"); err == nil {
		t.Errorf("an unknown tag ends nothing:\n%s", out)
	}
	if got := read(t, lock); got != want {
		t.Errorf("a failed run leaves\n%s\nwant the former lock", got)
	}
}

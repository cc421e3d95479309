//go:build unix

package buildcache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"agents.example/controlplane/emulators/gobuild"
)

// prebuilt is a program that prints which program it is.
const prebuilt = "#!/bin/sh\nprintf prebuilt >&2\n"

// offer makes a builder download from a server. The repository has the checksum of published.
func offer(t *testing.T, b *Builder, published string, server http.HandlerFunc) *bytes.Buffer {
	t.Helper()
	s := httptest.NewServer(server)
	t.Cleanup(s.Close)
	b.URL, b.Checksums = s.URL+"/binaries/", filepath.Join(b.Programs[0].Module, "prebuilt.sha256")
	write(t, b.Programs[0].Module, "prebuilt.sha256", fmt.Sprintf("%x  sample-other\n%x  %s\n",
		sha256.Sum256([]byte("other")), sha256.Sum256([]byte(published)), nameOf(t, b)))
	var output bytes.Buffer
	b.Progress = gobuild.NewProgress(&output)
	return &output
}

func nameOf(t *testing.T, b *Builder) string {
	t.Helper()
	result, err := b.result()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(result)
}

// run builds and returns what the binary prints.
func run(t *testing.T, b *Builder) string {
	t.Helper()
	binary, err := b.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(t.Context(), binary).CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	return string(output)
}

func TestBuild_DownloadsWhatWasPublished(t *testing.T) {
	t.Parallel()
	b := newSmallBuilder(t, `"compiled"`)
	path := "/binaries/" + nameOf(t, b)
	offer(t, b, prebuilt, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			t.Errorf("path of the request = %s, want %s", r.URL.Path, path)
		}
		_, _ = w.Write([]byte(prebuilt))
	})
	if got := run(t, b); got != "prebuilt" {
		t.Errorf("the binary prints %q, want the published one", got)
	}
}

func TestBuild_CompilesWithoutAnIntactDownload(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		server    http.HandlerFunc
		published string
		want      string // of the output
	}{
		"other bytes": {
			server:    func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(prebuilt + " ")) },
			published: prebuilt, want: "has the checksum",
		},
		"truncated": {
			server: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", strconv.Itoa(len(prebuilt)))
				_, _ = w.Write([]byte(prebuilt[:10]))
			},
			published: prebuilt, want: "unexpected EOF",
		},
		// A page that explains the error does not count as the binary, even if it were the published one.
		"not found": {
			server: func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusNotFound)
				_, _ = w.Write([]byte(prebuilt))
			},
			published: prebuilt, want: "404 Not Found",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newSmallBuilder(t, `"compiled"`)
			output := offer(t, b, test.published, test.server)
			if got := run(t, b); got != "compiled" {
				t.Errorf("the binary prints %q, want the compiled one", got)
			}
			if !strings.Contains(output.String(), test.want) {
				t.Errorf("output = %q, want it to contain %q", output, test.want)
			}
		})
	}
}

func TestBuild_AsksForNothingUnpublished(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Builder){
		"changed sources": func(b *Builder) { write(t, b.Programs[0].Module, "other.go", "package main\n") },
		"no checksums":    func(b *Builder) { _ = os.Remove(b.Checksums) },
	} {
		b := newSmallBuilder(t, `"compiled"`)
		offer(t, b, prebuilt, func(http.ResponseWriter, *http.Request) { t.Errorf("%s: the server was asked", name) })
		change(b)
		if got := run(t, b); got != "compiled" {
			t.Errorf("%s: the binary prints %q, want the compiled one", name, got)
		}
	}
}

func TestBuild_EndsADownloadWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	b := newSmallBuilder(t, `"compiled"`)
	output := offer(t, b, prebuilt, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	if _, err := b.Build(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want context.Canceled", err)
	}
	if strings.Contains(output.String(), "compiled instead") {
		t.Errorf("output = %q, want no build after the context ended", output)
	}
}

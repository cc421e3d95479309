package archiveimport_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agents.example/controlplane/infra/archiveimport"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/archive"
)

// makeArchive makes an archive of a volume with one file.
func makeArchive(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes"), []byte("some notes"), 0o600); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := archive.Write(t.Context(), &b, []byte(`{"format": "agents.example/volume", "version": 1}`), dir); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func volume(dir string) archive.Volume {
	return archive.Volume{
		Dir: dir, Limits: archive.Limits{Bytes: 1 << 10, Entries: 10}, Sync: func(string) error { return nil },
	}
}

// TestRun_EndsForTheReasonOfTheServer asks servers that fail in their ways. No error has the URL.
func TestRun_EndsForTheReasonOfTheServer(t *testing.T) {
	t.Parallel()
	content := makeArchive(t)
	answer := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
	}
	send := func(body []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }
	}
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		want  int
	}{
		"a redirect": {serve: func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/elsewhere" {
				http.Redirect(w, r, "/elsewhere", http.StatusFound)
			}
		}, want: dataplane.ImportRefused},
		"denied":      {serve: answer(http.StatusForbidden), want: dataplane.ImportDenied},
		"missing":     {serve: answer(http.StatusNotFound), want: dataplane.ImportMissing},
		"busy":        {serve: answer(http.StatusTooManyRequests), want: dataplane.ImportUnreachable},
		"broken":      {serve: answer(http.StatusBadGateway), want: dataplane.ImportUnreachable},
		"no archive":  {serve: send(make([]byte, 4096)), want: dataplane.ImportInvalid},
		"a short one": {serve: send(content[:1600]), want: dataplane.ImportIncomplete},
		"a connection that breaks": {serve: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(content[:1600])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, want: dataplane.ImportUnreachable},
	} {
		server := httptest.NewServer(c.serve)
		t.Cleanup(server.Close)
		dir := t.TempDir()
		err := archiveimport.Run(t.Context(), archiveimport.Options{
			URL: server.URL + "/canary?signature=canary", Volume: volume(dir), AllowLoopback: true,
		})
		failure, ok := errors.AsType[*archiveimport.Failure](err)
		if !ok || failure.ExitCode != c.want || strings.Contains(err.Error(), "canary") ||
			strings.Contains(err.Error(), server.URL) {
			t.Errorf("%s: %v, want exit code %d and nothing of the URL", name, err, c.want)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: the volume has %v, %v", name, left, err)
		}
	}
}

func TestRun_ConnectsToPublicAddressesThroughTLSOnly(t *testing.T) {
	t.Parallel()
	private := func(context.Context, string, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("10.0.0.7")}, nil
	}
	for name, c := range map[string]struct {
		url  string
		want int
	}{
		"a private address": {url: "https://archives.example.com/a", want: dataplane.ImportNotPublic},
		"no TLS":            {url: "http://archives.example.com/a", want: dataplane.ImportRefused},
		"a file":            {url: "file:///etc/passwd", want: dataplane.ImportRefused},
	} {
		err := archiveimport.Run(t.Context(), archiveimport.Options{
			URL: c.url, Volume: volume(t.TempDir()), Find: private,
		})
		if f, ok := errors.AsType[*archiveimport.Failure](err); !ok || f.ExitCode != c.want {
			t.Errorf("%s: %v, want exit code %d", name, err, c.want)
		}
	}
}

// TestRun_ConnectsToTheGate: all names lead to its address, which may be a private one.
func TestRun_ConnectsToTheGate(t *testing.T) {
	t.Parallel()
	content := makeArchive(t)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(content)
	}))
	t.Cleanup(server.Close)
	at := netip.MustParseAddrPort(server.Listener.Addr().String())
	options := archiveimport.Options{
		URL: fmt.Sprintf("https://example.com:%d/a", at.Port()), RootCAs: x509.NewCertPool(),
		Find: func(context.Context, string, string) ([]netip.Addr, error) { return []netip.Addr{at.Addr()}, nil },
	}
	options.RootCAs.AddCert(server.Certificate())
	for name, row := range map[string]struct {
		gate netip.Addr
		want int
	}{
		"the gate":        {gate: at.Addr()},
		"another address": {gate: netip.MustParseAddr("10.0.0.53"), want: dataplane.ImportNotPublic},
		"no gate":         {want: dataplane.ImportNotPublic},
	} {
		o := options
		o.Gate, o.Volume = row.gate, volume(t.TempDir())
		got := 0
		if f, failed := errors.AsType[*archiveimport.Failure](archiveimport.Run(t.Context(), o)); failed {
			got = f.ExitCode
		}
		if got != row.want {
			t.Errorf("%s: exit code %d, want %d", name, got, row.want)
		}
	}
}

func TestRun_FillsAVolumeOnce(t *testing.T) {
	t.Parallel()
	content, requests := makeArchive(t), 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		_, _ = w.Write(content)
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	for range 2 {
		err := archiveimport.Run(t.Context(), archiveimport.Options{
			URL: server.URL, Volume: volume(dir), AllowLoopback: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "notes"), []byte("the agent's"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "notes"))
	if requests != 1 || err != nil || string(text) != "the agent's" {
		t.Errorf("after %d requests the notes are %q, %v; want the agent's after one", requests, text, err)
	}
}

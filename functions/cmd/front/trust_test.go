package main

import (
	"context"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sethvargo/go-envconfig"
)

const someCertificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

// A pod that a later release made must not wait for a step that never ends.
func TestCommand_RefusesUnknownArguments(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancel(t.Context())
	end() // a front would serve until then
	err := command([]string{"of-a-later-release"})(ctx, envconfig.MapLookuper(map[string]string{
		"LISTEN_HOST": "127.61.7.9", "AGENT_HOSTNAME": "a.example.com", "AGENT_PORT": "1", "DASHBOARD_USERNAME": "u",
		"DASHBOARD_PASSWORD": "p", "API_SERVER_KEY": "k",
	}))
	if err == nil {
		t.Error("an unknown argument starts a front")
	}
}

// TestWriteTrust_WaitsForTheGate: a gate that does not know the agent's policy yet, or is not there, is asked again.
func TestWriteTrust_WaitsForTheGate(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch asked.Add(1) {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(strings.ReplaceAll(someCertificate, "AAAA", "BBBB")))
		case 2:
			_, _ = w.Write([]byte("no certificate"))
		default:
			_, _ = w.Write([]byte(someCertificate))
		}
	}))
	t.Cleanup(gate.Close)
	name, roots := filepath.Join(t.TempDir(), "ca.pem"), filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, []byte("the roots"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := writeTrust(t.Context(), envconfig.MapLookuper(map[string]string{
		"EGRESS_CA_URL": gate.URL, "EGRESS_CA_FILE": name, "SSL_CERT_FILE": roots,
	}))
	if err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(written), "the roots\n"+someCertificate; got != want {
		t.Errorf("the file has %q, want %q", got, want)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != trustMode || asked.Load() != 3 {
		t.Errorf("mode %v after %d requests, error %v", info.Mode(), asked.Load(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(name), ".ca-*")); len(left) > 0 {
		t.Errorf("files are left: %q", left)
	}
}

// TestWriteTrust_EndsWithItsPod: a pod whose gate is away can be stopped.
func TestWriteTrust_EndsWithItsPod(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		cancel()
	}))
	t.Cleanup(gate.Close)
	name := filepath.Join(t.TempDir(), "ca.pem")
	err := writeTrust(ctx, envconfig.MapLookuper(map[string]string{"EGRESS_CA_URL": gate.URL, "EGRESS_CA_FILE": name}))
	if err == nil {
		t.Error("writeTrust ended without an error")
	}
	if _, err := os.Stat(name); err == nil {
		t.Error("there is a file without the certificate of the CA")
	}
}

// TestReadRoots_FindsThoseOfTheSystem: without them, the agent would trust no host but those with brokered secrets.
func TestReadRoots_FindsThoseOfTheSystem(t *testing.T) {
	t.Parallel()
	roots, err := readRoots(rootFiles(os.Getenv("SSL_CERT_FILE")))
	if err != nil || !x509.NewCertPool().AppendCertsFromPEM(roots) {
		t.Errorf("%d bytes of certificates, error %v", len(roots), err)
	}
	if _, err := readRoots(rootFiles(filepath.Join(t.TempDir(), "none"))); err == nil {
		t.Error("a system without certificates is no error")
	}
}

package agentctl

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"agents.example/controlplane/shared/client"
)

// TestPack_EndsNoArchiveAfterAFailure: tar takes what ends as an archive for the whole.
func TestPack_EndsNoArchiveAfterAFailure(t *testing.T) {
	t.Parallel()
	var archive bytes.Buffer
	if err := pack(&archive, filepath.Join(t.TempDir(), "none"), "none"); err == nil {
		t.Error("pack succeeds without the directory")
	}
	if archive.Len() > 0 {
		t.Errorf("the archive has %d bytes, want none after the failure", archive.Len())
	}
}

// TestOpenSession_EndsWithoutAnAnswer opens a session at an API that accepts the connection, and is silent.
func TestOpenSession_EndsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nothing depends on it
	api, err := client.New("http://"+l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = openSession(ctx, api, "a", client.TerminalParams{}, 10*time.Millisecond)
	if code := exitCode(err); code != ExitUnavailable {
		t.Errorf("the session ends with %v, exit code %d, want %d", err, code, ExitUnavailable)
	}
}

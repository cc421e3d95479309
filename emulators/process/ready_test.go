//go:build unix

package process

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestFreePortAndListening(t *testing.T) {
	t.Parallel()
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if err := Listening(address)(t.Context()); err == nil {
		t.Error("something listens on a port that is free")
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	if err := Listening(address)(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLogTailIsShort(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	var text strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(LogTail(path), "\n")
	if len(lines) != tailLines || lines[0] != "line 9980" || lines[tailLines-1] != "line 9999" {
		t.Errorf("%d lines, first %q, last %q", len(lines), lines[0], lines[len(lines)-1])
	}
	if got := LogTail(filepath.Join(t.TempDir(), "none")); got != "" {
		t.Errorf("tail of no file: %q", got)
	}
}

//go:build unix

package process

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
)

const (
	tailLines = 20
	tailBytes = 8 << 10
)

// FreePort answers a TCP port of 127.0.0.1 that was free a moment ago. Somebody else may take it before its user
// does: a caller checks that it was its own child that got the port (its log says so), and tries another otherwise.
func FreePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it answers at once
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// Listening answers a readiness check: something accepts TCP connections at address (host:port).
func Listening(address string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return fmt.Errorf("nothing listens yet: %w", err)
		}
		return connection.Close()
	}
}

// LogTail answers the last lines of a log file (at most 20 lines and 8 KiB), or nothing when it can't be read.
func LogTail(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return ""
	}
	data := make([]byte, min(info.Size(), tailBytes))
	n, _ := file.ReadAt(data, info.Size()-int64(len(data)))
	lines := strings.Split(strings.TrimRight(string(data[:n]), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

func (p *Process) logTail() string {
	tail := LogTail(p.options.LogFile)
	if tail == "" {
		return "; its log is empty: " + p.options.LogFile
	}
	return fmt.Sprintf("; the end of its log %s:\n%s", p.options.LogFile, tail)
}

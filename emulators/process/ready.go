//go:build unix

package process

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
)

const (
	tailLines = 20
	tailBytes = 8 << 10
)

// The ports that FreePort chooses from: no system takes them for outgoing connections, of which there may be many
// before a port's user listens on it.
const (
	firstPort = 10_000
	lastPort  = 32_000
	portTries = 100
)

// FreePort answers a TCP port of 127.0.0.1 that was free a moment ago. It is chosen at random, so that it is unlikely,
// not impossible, that somebody else takes it before its user does.
func FreePort() (port int, err error) {
	for range portTries {
		port = firstPort + rand.IntN(lastPort-firstPort)
		var listener net.Listener
		listener, err = net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)) //nolint:noctx // it answers at once
		if err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("find a free port: %w", err)
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

//go:build unix

package process

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
)

const (
	tailLines = 20
	tailBytes = 8 << 10
)

// The range of FreePorts. Operating systems take no port from it for a connection, or for a server that leaves the
// choice to them.
const (
	firstPort = 10_000
	lastPort  = 32_000
	portTries = 100
)

// FreePorts returns n different random TCP ports that are free on 127.0.0.1. On Linux, they are reserved until this
// process ends: another process gets none of them, but a server can listen that sets SO_REUSEADDR, as servers do. On
// other systems, another process may take one before the caller listens, but that is unlikely.
func FreePorts(n int) (ports []int, err error) {
	for range n {
		port, release, err := reserveAny()
		if err != nil {
			return nil, err
		}
		defer release() // not before all ports are chosen, so that none is chosen twice
		ports = append(ports, port)
	}
	return ports, nil
}

// FreePort returns one port, as FreePorts does.
func FreePort() (int, error) {
	ports, err := FreePorts(1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}

// reserveAny reserves a random port of the range.
func reserveAny() (port int, release func(), err error) {
	for range portTries {
		port = firstPort + rand.IntN(lastPort-firstPort)
		if release, err = reserve(port); err == nil {
			return port, release, nil
		}
	}
	return 0, nil, fmt.Errorf("find a free port: %w", err)
}

// Listening returns a readiness check that succeeds when address (host:port) accepts TCP connections.
func Listening(address string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return fmt.Errorf("no server listens on %s yet: %w", address, err)
		}
		return connection.Close()
	}
}

// LogTail returns the last lines of a log file (at most 20 lines and 8 KiB), or "" if the file cannot be read.
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
	return fmt.Sprintf("; the last lines of its log %s:\n%s", p.options.LogFile, tail)
}

// Package containerlog writes and reads the log file of one container, in the format of the container runtime
// interface.
// It does not know which container the log is of.
package containerlog

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	// maxSize is the size at which a kubelet rotates a log.
	maxSize = 10 << 20
	// maxLine is the length at which container runtimes cut a line into parts.
	maxLine = 16 << 10
	// rotatedSuffix ends the name of the file that holds the output before the last rotation. Kubelets do not serve it.
	rotatedSuffix = ".rotated"
)

// Log is the log file of one run of a container.
type Log struct {
	path string
	max  int64

	mu   sync.Mutex
	file *os.File
	size int64
	open int // streams
}

// Create creates the log file and its directory.
func Create(path string) (*Log, error) { return create(path, maxSize) }

func create(path string, limit int64) (*Log, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make the log's directory: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create the log: %w", err)
	}
	return &Log{path: path, max: limit, file: file}, nil
}

// Stream returns a writer of the container's output, named stdout or stderr. Closing the last one closes the log.
func (l *Log) Stream(name string) io.WriteCloser {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open++
	return &stream{log: l, name: name}
}

// stream cuts output into lines.
type stream struct {
	log  *Log
	name string
	line []byte // the beginning of a line whose end is not written yet
}

// Write never fails: a full disk must not end a container.
func (s *stream) Write(output []byte) (int, error) {
	rest := output
	for len(rest) > 0 {
		end := bytes.IndexByte(rest, '\n')
		room := maxLine - len(s.line)
		switch {
		case end >= 0 && end <= room:
			s.log.write(s.name, 'F', append(s.line, rest[:end]...))
			s.line, rest = s.line[:0], rest[end+1:]
		case len(rest) > room:
			s.log.write(s.name, 'P', append(s.line, rest[:room]...))
			s.line, rest = s.line[:0], rest[room:]
		default:
			s.line, rest = append(s.line, rest...), nil
		}
	}
	return len(output), nil
}

// Close writes the last line if it has no end.
func (s *stream) Close() error {
	if len(s.line) > 0 {
		s.log.write(s.name, 'F', s.line)
	}
	return s.log.closeStream()
}

func (l *Log) closeStream() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open--; l.open > 0 {
		return nil
	}
	return l.file.Close()
}

func (l *Log) write(stream string, tag byte, line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry := make([]byte, 0, len(line)+48)
	entry = time.Now().UTC().AppendFormat(entry, "2006-01-02T15:04:05.000000000Z07:00")
	entry = fmt.Appendf(entry, " %s %c ", stream, tag)
	entry = append(append(entry, line...), '\n')
	if l.size > 0 && l.size+int64(len(entry)) > l.max {
		l.rotate()
	}
	n, _ := l.file.Write(entry)
	l.size += int64(n)
}

// rotate starts a new file. If that fails, the old one grows on.
func (l *Log) rotate() {
	if os.Rename(l.path, l.path+rotatedSuffix) != nil {
		return
	}
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	_ = l.file.Close()
	l.file, l.size = file, 0
}

// Remove removes a log that no container writes to.
func Remove(path string) {
	_, _ = os.Remove(path), os.Remove(path+rotatedSuffix)
}

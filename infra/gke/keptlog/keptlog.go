// Package keptlog is the form in which an agent's namespace keeps the logs of containers that have ended: a ConfigMap
// for each, with the end of the log, compressed, and annotations that describe the container. Workers write them and
// the log route reads them. It links no Kubernetes types.
package keptlog

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"agents.example/controlplane/shared/agentlog"
)

const (
	// Key is the key of the compressed log.
	Key = "log"
	// Label is on these objects and on no others.
	Label = "agents.example/kept-log"
	// Gone is how a kubelet begins what it says instead of a log that it no longer has.
	Gone = "unable to retrieve container logs for "
	// MaxObject is more than the size of one of the objects in JSON.
	MaxObject = 256 << 10
)

// The annotations.
const (
	container = "agents.example/container"
	startedAt = "agents.example/started-at"
	endedAt   = "agents.example/ended-at"
	exitCode  = "agents.example/exit-code"
	reason    = "agents.example/reason"
	run       = "agents.example/run"
)

// Names lists the names of the objects in a namespace.
func Names() []string {
	names := make([]string, agentlog.MaxKept)
	for i := range names {
		names[i] = "agent-log-" + strconv.Itoa(i+1)
	}
	return names
}

// IsName reports whether an object with the name may be one of these.
func IsName(name string) bool { return slices.Contains(Names(), name) }

// Annotations describes a container.
func Annotations(e agentlog.Ended) map[string]string {
	all := map[string]string{
		container: e.Container, endedAt: e.EndedAt.UTC().Format(time.RFC3339),
		exitCode: strconv.Itoa(e.ExitCode), reason: e.Reason, run: strconv.Itoa(e.Run),
	}
	if !e.StartedAt.IsZero() {
		all[startedAt] = e.StartedAt.UTC().Format(time.RFC3339)
	}
	return all
}

// Describe reads what Annotations wrote. It reports false for an object that does not say which container it is of.
func Describe(annotations map[string]string) (agentlog.Ended, bool) {
	e := agentlog.Ended{Container: annotations[container], Reason: annotations[reason]}
	var err error
	if e.EndedAt, err = time.Parse(time.RFC3339, annotations[endedAt]); err != nil || e.Container == "" {
		return agentlog.Ended{}, false
	}
	// Without these the log is worth the same.
	e.StartedAt, _ = time.Parse(time.RFC3339, annotations[startedAt])
	e.ExitCode, _ = strconv.Atoi(annotations[exitCode])
	e.Run, _ = strconv.Atoi(annotations[run])
	return e, true
}

// Tail reads a log to its end and returns the last lines of it, at most agentlog.MaxKeptBytes. A line that does not fit
// is left out, unless it is the only one.
func Tail(r io.Reader) ([]byte, error) {
	var tail []byte
	cut := false
	part := make([]byte, 32<<10)
	for {
		n, err := r.Read(part)
		tail = append(tail, part[:n]...)
		if over := len(tail) - agentlog.MaxKeptBytes; over > 0 {
			cut = tail[over-1] != '\n'
			tail = tail[:copy(tail, tail[over:])]
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if at := bytes.IndexByte(tail, '\n'); cut && at >= 0 && at+1 < len(tail) {
		tail = tail[at+1:]
	}
	return tail, nil
}

// Unavailable reports whether a log is only what a kubelet says about one that it no longer has. Lines of a container
// begin with their times.
func Unavailable(log []byte) bool { return bytes.HasPrefix(log, []byte(Gone)) }

// Compress returns a log in the form in which it is kept.
func Compress(log []byte) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(log)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("compress a log: %w", err)
	}
	return b.Bytes(), nil
}

// Open reads what Compress wrote, at most agentlog.MaxKeptBytes.
func Open(compressed []byte) (io.Reader, error) {
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, fmt.Errorf("read a kept log: %w", err)
	}
	return io.LimitReader(r, agentlog.MaxKeptBytes), nil
}

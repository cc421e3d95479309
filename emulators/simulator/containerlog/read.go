package containerlog

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// ReadOptions say what Read reads.
type ReadOptions struct {
	Follow     bool            // wait for more output until Done
	Done       <-chan struct{} // closed when the container has exited, and its output is written
	Since      time.Time       // leave out earlier output
	Tail       int             // only so many lines before what follows; negative for all
	Limit      int64           // only so many bytes; negative for all
	Timestamps bool            // begin each line with its time
	// Stdout and Stderr receive the lines of the container's streams; nil leaves one out.
	Stdout, Stderr io.Writer
}

// followInterval is how often a followed log is read again.
const followInterval = 100 * time.Millisecond

// errLimit ends the reading.
var errLimit = errors.New("limit reached")

// Read writes the lines of a log as kubectl shows them. It returns when all is read or, if it follows, when the
// container has exited or ctx ends.
func Read(ctx context.Context, path string, o ReadOptions) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read a log: %w", err)
	}
	r := &reader{path: path, file: file, options: o, newLine: true}
	defer func() { _ = r.file.Close() }()
	if err := r.skip(); err != nil {
		return err
	}
	tick := time.NewTicker(followInterval)
	defer tick.Stop()
	for {
		ended := !o.Follow || isClosed(o.Done) // checked before the last read
		err := r.drain()
		if errors.Is(err, errLimit) || err == nil && ended {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-o.Done:
		case <-tick.C:
		}
	}
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// reader reads a log that may grow and rotate.
type reader struct {
	path    string
	file    *os.File
	options ReadOptions
	pending []byte // the beginning of an entry whose end is not written yet
	newLine bool   // the last entry ended a line
}

// skip moves to the first of the last lines.
func (r *reader) skip() error {
	if r.options.Tail < 0 {
		return nil
	}
	all, err := io.ReadAll(r.file)
	if err != nil {
		return fmt.Errorf("read a log: %w", err)
	}
	start := len(all)
	for lines := 0; start > 0; start-- {
		if all[start-1] != '\n' {
			continue
		}
		if lines++; lines > r.options.Tail {
			break
		}
	}
	if _, err := r.file.Seek(int64(start), io.SeekStart); err != nil {
		return fmt.Errorf("read a log: %w", err)
	}
	return nil
}

// drain writes all entries up to the end of the log, also those after a rotation.
func (r *reader) drain() error {
	for {
		if err := r.drainFile(); err != nil {
			return err
		}
		now, err := os.Open(r.path)
		if err != nil {
			return nil //nolint:nilerr // it rotates in this moment, or is removed
		}
		before, err1 := r.file.Stat()
		after, err2 := now.Stat()
		if err := errors.Join(err1, err2); err != nil || os.SameFile(before, after) {
			return errors.Join(err, now.Close())
		}
		// What was written between the last read and the rotation comes first.
		if err := r.drainFile(); err != nil {
			return errors.Join(err, now.Close())
		}
		_ = r.file.Close()
		r.file, r.pending = now, nil
	}
}

func (r *reader) drainFile() error {
	for entries := bufio.NewReader(r.file); ; {
		part, err := entries.ReadBytes('\n')
		r.pending = append(r.pending, part...)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a log: %w", err)
		}
		if err := r.write(r.pending); err != nil {
			return err
		}
		r.pending = r.pending[:0]
	}
}

// write writes one entry, such as "2026-01-02T03:04:05.6Z stdout F text".
func (r *reader) write(entry []byte) error {
	fields := bytes.SplitN(entry, []byte(" "), 4)
	if len(fields) < 4 {
		return nil // a disk was full
	}
	written, err := time.Parse(time.RFC3339Nano, string(fields[0]))
	if err != nil || written.Before(r.options.Since) {
		return nil //nolint:nilerr // the same
	}
	to := r.options.Stdout
	if string(fields[1]) == "stderr" {
		to = r.options.Stderr
	}
	if to == nil {
		return nil
	}
	var line []byte
	if r.options.Timestamps && r.newLine {
		line = append(append(line, fields[0]...), ' ')
	}
	line = append(line, fields[3]...)
	if r.newLine = fields[2][0] != 'P'; !r.newLine {
		line = bytes.TrimSuffix(line, []byte("\n"))
	}
	return r.limit(to, line)
}

// limit writes as much of a line as may be written.
func (r *reader) limit(to io.Writer, line []byte) error {
	if r.options.Limit >= 0 && int64(len(line)) > r.options.Limit {
		line = line[:r.options.Limit]
	}
	if r.options.Limit >= 0 {
		r.options.Limit -= int64(len(line))
	}
	if _, err := to.Write(line); err != nil {
		return fmt.Errorf("pass a log on: %w", err)
	}
	if r.options.Limit == 0 {
		return errLimit
	}
	return nil
}

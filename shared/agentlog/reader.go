package agentlog

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"time"
	"unicode/utf8"
)

// stampSize is more than the longest timestamp of a line, including the space after it.
const stampSize = 64

// resumeSlack is the greatest difference between the order of lines in a log and the order of their times: a container
// runtime takes the time of a line before it has written the lines of the container's other stream.
const resumeSlack = 100 * time.Millisecond

// maxHeld bounds the lines that a resumed reader holds while it looks for the line to continue after.
const maxHeld = 256

// Reader reads the lines of one container, each with its time in RFC 3339 and a space in front of it, as Kubernetes
// writes them.
//
// A reader that resumes finds the line to continue after by its whole position, because the order of lines is not
// always that of their times. If the cell does not keep that line any more, the reader continues with the lines that
// are later.
type Reader struct {
	source *bufio.Reader
	since  time.Time
	// drop is the number of lines to leave out at the beginning.
	drop int
	// sought is the position to continue after until it is found.
	sought Position
	// position is after the last line returned, and last after the last line read.
	position, last Position
	// seen counts the messages at the time of last.
	seen map[uint32]int
	// held are lines after the time of sought that were read before it was found.
	held []placed
}

type placed struct {
	Line
	position Position
}

// NewReader returns a reader of a container's log, from Since or after After. Other options have no effect: the source
// applies them.
func NewReader(r io.Reader, container string, o Options) *Reader {
	n := &Reader{
		source: bufio.NewReaderSize(r, stampSize+MaxMessage+1), since: o.Since, seen: map[uint32]int{},
		position: Position{Container: container, Time: o.Since}, last: Position{Container: container},
	}
	if o.After.Container == container {
		n.position, n.since = o.After, o.After.Time
		if o.After.Occurrence > 0 {
			n.sought, n.since = o.After, time.Time{}
		}
	}
	return n
}

// From returns the time from which a source must send the lines of a container to a reader, in whole seconds; zero for
// all.
func From(container string, o Options) time.Time {
	from := o.Since
	if o.After.Container == container {
		from = o.After.Time
		if o.After.Occurrence > 0 {
			from = from.Add(-resumeSlack)
		}
	}
	if nanoseconds(from) == 0 {
		return time.Time{}
	}
	return from.Truncate(time.Second)
}

// Position returns the position after the last line.
func (r *Reader) Position() Position { return r.position }

// Next returns the next line. The error is io.EOF at the end, or that of the source.
func (r *Reader) Next() (Line, error) {
	for {
		if len(r.held) > 0 && r.sought.Container == "" {
			return r.release(), nil
		}
		p, err := r.read()
		if errors.Is(err, io.EOF) && len(r.held) > 0 {
			r.sought = Position{}
			continue
		}
		if err != nil {
			return Line{}, err
		}
		if r.sought.Container == "" {
			if r.drop > 0 {
				r.drop--
				continue
			}
			if !p.Time.IsZero() && p.Time.Before(r.since) {
				continue
			}
			r.position = p.position
			return p.Line, nil
		}
		r.seek(p)
	}
}

// seek handles a line before sought was found.
func (r *Reader) seek(p placed) {
	switch gap := p.Time.Sub(r.sought.Time); {
	case p.position.is(r.sought):
		r.sought, r.held = Position{}, nil
	case gap > 0:
		r.held = append(r.held, p)
		if gap > resumeSlack || len(r.held) == maxHeld {
			r.sought = Position{}
		}
	}
}

func (r *Reader) release() Line {
	p := r.held[0]
	r.held, r.position = r.held[1:], p.position
	return p.Line
}

// read reads one line and computes its position.
func (r *Reader) read() (placed, error) {
	raw, cut, err := r.readRaw()
	if err != nil {
		return placed{}, err
	}
	l := Line{Output: Combined, Cut: cut}
	stamp, message, found := bytes.Cut(raw, []byte{' '})
	if t, err := time.Parse(time.RFC3339Nano, string(stamp)); found && err == nil {
		l.Time = t.UTC()
	} else {
		message = raw // what a kubelet says about a log that it cannot find
	}
	if len(message) > MaxMessage {
		message, l.Cut = message[:MaxMessage], true
	}
	if l.Cut {
		message = wholeRunes(message)
	}
	l.Message = string(message)
	if !l.Time.IsZero() { // no line of the container is without a time
		r.last = r.last.after(l, r.seen)
	}
	return placed{l, r.last}, nil
}

// readRaw reads one line without its end. It keeps the beginning of a line that is longer than the buffer.
func (r *Reader) readRaw() (line []byte, cut bool, err error) {
	line, err = r.source.ReadSlice('\n')
	switch {
	case err == nil:
		return line[:len(line)-1], false, nil
	case errors.Is(err, bufio.ErrBufferFull):
		line = bytes.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = r.source.ReadSlice('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, false, err
		}
		return line, true, nil
	case errors.Is(err, io.EOF) && len(line) > 0:
		return line, false, nil // the container ended without an end of line
	default:
		return nil, false, err
	}
}

// wholeRunes removes a character at the end that was cut.
func wholeRunes(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

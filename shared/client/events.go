package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

// maxEvent bounds one event of a stream. The API's are at most a tenth of it.
const maxEvent = 1 << 20

// longEvent is the error of an event that is longer than maxEvent.
func longEvent() error { return permanentError{errors.New("an event of the stream is too long")} }

// event is a server-sent event.
type event struct {
	// name is the type; empty for an ordinary message.
	name string
	data []byte
}

// eventReader reads a stream of server-sent events, as the HTML standard defines them.
type eventReader struct {
	in *bufio.Reader
	// lastID is the id to continue after. It becomes valid with the event that it came with.
	lastID string
	// reconnect is the pause that the server asks for; 0 if it does not.
	reconnect time.Duration

	begun, afterCR bool
}

// newEventReader returns a reader of a stream that continues after the event with an id; empty if it does not.
func newEventReader(r io.Reader, lastID string) *eventReader {
	return &eventReader{in: bufio.NewReader(r), lastID: lastID}
}

// next returns the next event. An event that the stream does not complete is none. Errors: io.EOF, and those of the
// connection.
func (r *eventReader) next() (event, error) {
	var e event
	id, size := r.lastID, 0
	for hasData := false; ; {
		line, err := r.line()
		if err != nil {
			return event{}, err
		}
		if len(line) == 0 {
			r.lastID = id
			if hasData {
				return e, nil
			}
			e, size = event{}, 0
			continue
		}
		if size += len(line); size > maxEvent {
			return event{}, longEvent()
		}
		field, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		switch string(field) {
		case "data":
			if hasData {
				e.data = append(e.data, '\n')
			}
			e.data, hasData = append(e.data, value...), true
		case "event":
			e.name = string(value)
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				id = string(value)
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				r.reconnect = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

// line returns a line without its end, which is LF, CR or CRLF. The LF after a CR is skipped when it arrives, so that a
// line is returned as soon as it is complete.
func (r *eventReader) line() ([]byte, error) {
	var line []byte
	for {
		b, err := r.in.ReadByte()
		if err != nil {
			return nil, err
		}
		afterCR := r.afterCR
		r.afterCR = b == '\r'
		switch {
		case b == '\n' && afterCR:
		case b == '\n' || b == '\r':
			if !r.begun {
				line = bytes.TrimPrefix(line, []byte("\ufeff"))
			}
			r.begun = true
			return line, nil
		case len(line) == maxEvent:
			return nil, longEvent()
		default:
			line = append(line, b)
		}
	}
}

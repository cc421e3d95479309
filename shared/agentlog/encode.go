package agentlog

import (
	"bytes"
	"encoding/json"
	"io"
	"time"

	"agents.example/controlplane/shared/eventstream"
)

// LineView is a line as clients see it.
type LineView struct {
	Time      *time.Time `json:"time" jsonschema:"When the container wrote the line; null if the cluster does not tell."`
	Message   string     `json:"message" jsonschema:"The line without its end."`
	Stream    Output     `json:"stream" jsonschema:"Where the container wrote the line. combined is standard output and standard error together. New values may be added."`
	Cut       bool       `json:"cut,omitempty" jsonschema:"True if the line was longer than 16 KiB, and is cut."`
	Truncated bool       `json:"truncated,omitempty" jsonschema:"True in the last line of an answer that is full. Continue with since, from the time of this line."`
	Ended     *EndedView `json:"ended,omitempty" jsonschema:"In the first line of the log of a container that has ended: how it ended."`
}

// EndedView is a container that has ended as clients see it.
type EndedView struct {
	StartedAt *time.Time `json:"started_at" jsonschema:"When the container started; null if it could not be started, or if that is not known."`
	EndedAt   time.Time  `json:"ended_at" jsonschema:"When the container ended."`
	ExitCode  int        `json:"exit_code" jsonschema:"The exit code of its program."`
	Reason    string     `json:"reason" jsonschema:"The cluster's reason, such as OOMKilled, Error or Completed. New values may be added."`
}

// view returns nil for nil.
func (e *Ended) view() *EndedView {
	if e == nil {
		return nil
	}
	v := &EndedView{EndedAt: e.EndedAt.UTC(), ExitCode: e.ExitCode, Reason: e.Reason}
	if !e.StartedAt.IsZero() {
		at := e.StartedAt.UTC()
		v.StartedAt = &at
	}
	return v
}

// encode returns a line as JSON without an end of line.
func encode(l Line, truncated bool) ([]byte, error) {
	r := LineView{Message: l.Message, Stream: l.Output, Cut: l.Cut, Truncated: truncated, Ended: l.Ended.view()}
	if !l.Time.IsZero() {
		r.Time = &l.Time
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(r)
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), err
}

// Copy writes the rest of a log as lines of JSON, at most MaxAnswer bytes. If a line does not fit, the one before it
// says so, and the client can continue from the time of that one.
func Copy(w io.Writer, s Stream) error {
	room := MaxAnswer
	var last *Line
	for {
		l, err := s.Next()
		if err == io.EOF { //nolint:errorlint // the port returns io.EOF itself
			return write(w, last, false)
		}
		if err != nil {
			return err
		}
		b, err := encode(l, true)
		if err != nil {
			return err
		}
		if len(b)+1 > room {
			return write(w, last, true)
		}
		room -= len(b) + 1
		if err := write(w, last, false); err != nil {
			return err
		}
		last = &l
	}
}

// write writes a line of JSON, or nothing for nil.
func write(w io.Writer, l *Line, truncated bool) error {
	if l == nil {
		return nil
	}
	b, err := encode(*l, truncated)
	if err == nil {
		_, err = w.Write(append(b, '\n'))
	}
	return err
}

// Encoder writes the lines of a log that is followed.
type Encoder interface {
	// Begin writes what comes before the first line.
	Begin() error
	// Line writes a line, with the position after it.
	Line(l Line, after Position) error
	// Heartbeat shows that the connection works while there are no lines.
	Heartbeat() error
}

// NewLines returns an encoder of lines of JSON. Their format has no heartbeat.
func NewLines(w io.Writer) Encoder { return lines{w} }

type lines struct{ w io.Writer }

// Begin implements Encoder.
func (lines) Begin() error { return nil }

// Line implements Encoder.
func (e lines) Line(l Line, _ Position) error { return write(e.w, &l, false) }

// Heartbeat implements Encoder.
func (lines) Heartbeat() error { return nil }

// NewEvents returns an encoder of Server-Sent Events. The id of an event is the position after its line.
func NewEvents(w io.Writer) Encoder { return events{w} }

type events struct{ w io.Writer }

// reconnect is how long clients wait before they continue after the end of a stream.
const reconnect = 2 * time.Second

// Begin implements Encoder.
func (e events) Begin() error { return eventstream.Write(e.w, eventstream.Event{Retry: reconnect}) }

// Line implements Encoder.
func (e events) Line(l Line, after Position) error {
	b, err := encode(l, false)
	if err != nil {
		return err
	}
	sent := eventstream.Event{Data: b}
	if after.Occurrence > 0 {
		sent.ID = after.String()
	}
	return eventstream.Write(e.w, sent)
}

// Heartbeat implements Encoder.
func (e events) Heartbeat() error {
	return eventstream.Write(e.w, eventstream.Event{Comment: "heartbeat"})
}

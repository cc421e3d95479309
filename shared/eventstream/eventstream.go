// Package eventstream writes streams of Server-Sent Events, in the format text/event-stream of the HTML standard. It
// does not decide what is sent, nor when it is flushed.
package eventstream

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Event is one block of a stream. Fields with zero values are not sent.
type Event struct {
	// Comment is for people and proxies; clients ignore it.
	Comment string
	// Retry is how long clients wait before they connect again, in whole milliseconds.
	Retry time.Duration
	// ID is the id after which a client continues when it connects again. Without Data, only the client's id moves on.
	ID string
	// Type is the type of the event; a client takes an event without one for a message.
	Type string
	// Data is what the event carries. Clients receive no event if it is nil.
	Data []byte
}

// Write writes an event with one call of w.Write, so that a stream that is cut between two calls has no part of an
// event. Clients receive the line breaks CR and CRLF in Data as LF. Errors: those of w, and one for an ID or a Type
// that the format cannot express.
func Write(w io.Writer, e Event) error {
	if strings.ContainsAny(e.ID, "\r\n\x00") || strings.ContainsAny(e.Type, "\r\n") {
		return errors.New("the id and the type of a server-sent event must be one line, and the id must have no NUL")
	}
	var b bytes.Buffer
	if e.Comment != "" {
		writeLines(&b, "", e.Comment)
	}
	if e.Retry > 0 {
		writeLines(&b, "retry", strconv.FormatInt(e.Retry.Milliseconds(), 10))
	}
	if e.ID != "" {
		writeLines(&b, "id", e.ID)
	}
	if e.Type != "" {
		writeLines(&b, "event", e.Type)
	}
	if e.Data != nil {
		writeLines(&b, "data", string(e.Data))
	}
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}

// breaks makes the line breaks CR and CRLF to LF. It is made once: that costs more than most events.
var breaks = sync.OnceValue(func() *strings.Replacer { return strings.NewReplacer("\r\n", "\n", "\r", "\n") })

// writeLines writes a field, once for each line of its value. A field without a name is a comment.
func writeLines(b *bytes.Buffer, field, value string) {
	for line := range strings.SplitSeq(breaks().Replace(value), "\n") {
		for _, part := range []string{field, ": ", line, "\n"} {
			b.WriteString(part)
		}
	}
}

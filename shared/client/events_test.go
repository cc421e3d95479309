package client

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestEventReader_ReadsStreams(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given, want string // each event as name|data|the id after it
		wantPause   time.Duration
		wantID      string
	}{
		"nothing":                {},
		"an event":               {given: "data: a\n\n", want: "|a|"},
		"without a space":        {given: "data:a\n\n", want: "|a|"},
		"two spaces":             {given: "data:  a\n\n", want: "| a|"},
		"several lines":          {given: "data: a\ndata\ndata: b\n\n", want: "|a\n\nb|"},
		"empty data":             {given: "data\n\n", want: "||"},
		"CRLF":                   {given: "id: 1\r\ndata: a\r\n\r\ndata: b\r\n\r\n", want: "|a|1 |b|1", wantID: "1"},
		"CR":                     {given: "id: 1\rdata: a\r\rdata: b\r\r", want: "|a|1 |b|1", wantID: "1"},
		"mixed":                  {given: "data: a\r\ndata: b\n\rdata: c\n\n", want: "|a\nb| |c|"},
		"a byte order mark":      {given: "\ufeffdata: a\n\n\ufeffdata: b\n\n", want: "|a|"},
		"comments":               {given: ": hello\n\n:\n: x\ndata: a\n: y\n\n", want: "|a|"},
		"a type":                 {given: "event: e\ndata: a\n\ndata: b\n\n", want: "e|a| |b|"},
		"an id that is taken":    {given: "id: 1\n\n", wantID: "1"},
		"an id that is none":     {given: "id: 1\x002\ndata: a\n\n", want: "|a|"},
		"an id that is reset":    {given: "id: 1\ndata: a\n\nid\ndata: b\n\n", want: "|a|1 |b|"},
		"an event that breaks":   {given: "data: a\n\nid: 2\ndata: b\n", want: "|a|"},
		"a pause":                {given: "retry: 1500\n\n", wantPause: 1500 * time.Millisecond},
		"a pause that is none":   {given: "retry: 1s\nretry: -1\nretry:\nretry: 99999999999\n\n"},
		"fields of later":        {given: "other: x\ndatas: y\ndata: a\n\n", want: "|a|"},
		"a line without a colon": {given: "hello\ndata: a\n\n", want: "|a|"},
	} {
		for _, read := range []func(io.Reader) io.Reader{iotest.DataErrReader, iotest.OneByteReader} {
			r := newEventReader(read(strings.NewReader(c.given)), "")
			var got []string
			for {
				e, err := r.next()
				if err != nil {
					if !errors.Is(err, io.EOF) {
						t.Errorf("%s: %v", name, err)
					}
					break
				}
				got = append(got, e.name+"|"+string(e.data)+"|"+r.lastID)
			}
			if joined := strings.Join(got, " "); joined != c.want {
				t.Errorf("%s: events %q, want %q", name, joined, c.want)
			}
			if r.lastID != c.wantID || r.reconnect != c.wantPause {
				t.Errorf("%s: id %q and pause %s, want %q and %s", name, r.lastID, r.reconnect, c.wantID, c.wantPause)
			}
		}
	}
}

// TestEventReader_ReturnsALineWithoutWaiting must not wait for the byte after a CR, which may come much later.
func TestEventReader_ReturnsALineWithoutWaiting(t *testing.T) {
	t.Parallel()
	late := errors.New("waited for more")
	r := newEventReader(io.MultiReader(strings.NewReader("data: a\r\r"), iotest.ErrReader(late)), "")
	if e, err := r.next(); err != nil || string(e.data) != "a" {
		t.Errorf("next() = %q, %v; want a", e.data, err)
	}
}

func TestEventReader_BoundsEvents(t *testing.T) {
	t.Parallel()
	line := "data: " + strings.Repeat("x", 1000) + "\n"
	for name, given := range map[string]string{
		"a long line": "data: " + strings.Repeat("x", maxEvent), "many lines": strings.Repeat(line, maxEvent/1000),
	} {
		if _, err := newEventReader(strings.NewReader(given), "").next(); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: %v, want an error", name, err)
		}
	}
}

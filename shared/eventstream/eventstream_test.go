package eventstream_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/eventstream"
)

func TestWrite_FormatsEvents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given eventstream.Event
		want  string
	}{
		"nothing":   {want: "\n"},
		"a message": {given: eventstream.Event{Data: []byte("a")}, want: "data: a\n\n"},
		"all fields": {
			given: eventstream.Event{
				Comment: "c", Retry: 1500 * time.Millisecond, ID: "1", Type: "e", Data: []byte("a"),
			},
			want: ": c\nretry: 1500\nid: 1\nevent: e\ndata: a\n\n",
		},
		"only an id": {given: eventstream.Event{ID: "1"}, want: "id: 1\n\n"},
		"empty data": {given: eventstream.Event{Data: []byte{}}, want: "data: \n\n"},
		"data of many lines": {
			given: eventstream.Event{Data: []byte("a\nb\r\nc\rd\n")},
			want:  "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n",
		},
		"data that looks like fields": {
			given: eventstream.Event{Data: []byte("a\n\nid: 2\n\ndata: b")},
			want:  "data: a\ndata: \ndata: id: 2\ndata: \ndata: data: b\n\n",
		},
		"data that begins with a space": {given: eventstream.Event{Data: []byte(" a")}, want: "data:  a\n\n"},
		"a comment of many lines": {
			given: eventstream.Event{Comment: "a\rdata: b\n\nid: 2"}, want: ": a\n: data: b\n: \n: id: 2\n\n",
		},
	} {
		var b strings.Builder
		if err := eventstream.Write(&b, c.given); err != nil || b.String() != c.want {
			t.Errorf("%s: %q, %v; want %q", name, b.String(), err, c.want)
		}
	}
}

func TestWrite_RefusesFieldsThatWouldBeOthers(t *testing.T) {
	t.Parallel()
	for _, e := range []eventstream.Event{
		{ID: "1\ndata: x"}, {ID: "1\r2"}, {ID: "1\x00"}, {Type: "e\n\n"}, {Type: "e\rid: 2"},
	} {
		var b strings.Builder
		if err := eventstream.Write(&b, e); err == nil || b.Len() > 0 {
			t.Errorf("%+v is written as %q, want an error and no byte", e, b.String())
		}
	}
}

// countingWriter counts calls, and fails if err is set.
type countingWriter struct {
	calls int
	err   error
}

// Write implements io.Writer.
func (w *countingWriter) Write(p []byte) (int, error) {
	w.calls++
	return len(p), w.err
}

func TestWrite_WritesAnEventWithOneCall(t *testing.T) {
	t.Parallel()
	w := countingWriter{err: errors.New("broken pipe")}
	e := eventstream.Event{Comment: "c", ID: "1", Data: []byte("a\nb")}
	if err := eventstream.Write(&w, e); !errors.Is(err, w.err) || w.calls != 1 {
		t.Errorf("Write() = %v with %d calls, want the writer's error and one call", err, w.calls)
	}
}

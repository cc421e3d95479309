package function

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A process holds many streams that wait for events, and a stream that exports much must not gather it.
func TestStreamWriter_HoldsLittle(t *testing.T) {
	t.Parallel()
	sent := httptest.NewRecorder()
	s := &streamWriter{sender: &chunkSender{w: sent, control: http.NewResponseController(sent), status: 200}}
	line := []byte(strings.Repeat("x", 999) + "\n")
	for range 1000 {
		if _, err := s.Write(line); err != nil {
			t.Fatal(err)
		}
		if cap(s.held) > 2*streamChunk {
			t.Fatalf("the writer holds %d bytes, want a chunk", cap(s.held))
		}
	}
	if err := s.Flush(); err != nil || sent.Body.Len() != 1000*len(line) || cap(s.held) > 0 {
		t.Errorf("Flush = %v after %d bytes, and it holds %d, want all sent and nothing held", err, sent.Body.Len(),
			cap(s.held))
	}
}

// brokenWriter is the writer of a client that is gone.
type brokenWriter struct{ http.ResponseWriter }

var errGone = errors.New("the client is gone")

func (brokenWriter) Write([]byte) (int, error) { return 0, errGone }

// A stream that ignores the error of a write must still not end as a complete one.
func TestStreamWriter_KeepsItsError(t *testing.T) {
	t.Parallel()
	w := brokenWriter{httptest.NewRecorder()}
	s := &streamWriter{sender: &chunkSender{w: w, control: http.NewResponseController(w), status: 200}}
	if _, err := s.Write(make([]byte, streamChunk)); !errors.Is(err, errGone) {
		t.Errorf("Write = %v, want %v", err, errGone)
	}
	if _, err := s.Write([]byte("x")); !errors.Is(err, errGone) {
		t.Errorf("a later Write = %v, want %v", err, errGone)
	}
	if err := s.send(); !errors.Is(err, errGone) {
		t.Errorf("send at the end = %v, want %v", err, errGone)
	}
}

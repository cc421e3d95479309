package duplex_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agents.example/controlplane/shared/dataplane/duplex"
)

// TestEnable_KeepsTheBodyOpenDuringTheAnswer: http.Transport reads a body again after its last byte, to see that it
// ended. By then, the answer may have begun.
func TestEnable_KeepsTheBodyOpenDuringTheAnswer(t *testing.T) {
	t.Parallel()
	const sent = "first half, second half"
	for name, first := range map[string]int{"none read": 0, "half read": 11, "all read": len(sent)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				answer, req := duplex.Enable(w, req)
				if _, err := io.ReadFull(req.Body, make([]byte, first)); err != nil {
					t.Errorf("before the answer: %v", err)
				}
				if got := answer.Status(); got != 0 {
					t.Errorf("before the answer, its status is %d, want 0", got)
				}
				_, _ = io.WriteString(answer, "answer")
				_ = http.NewResponseController(answer).Flush()
				if got := answer.Status(); got != http.StatusOK {
					t.Errorf("the status is %d, want 200", got)
				}
				rest, err := io.ReadAll(req.Body)
				if string(rest) != sent[first:] || err != nil {
					t.Errorf("during the answer, the body gives %q, %v; want %q", rest, err, sent[first:])
				}
				if n, err := req.Body.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) || answer.BodyFailed() {
					t.Errorf("after its end, the body gives %d bytes, %v; want its end", n, err)
				}
			}))
			defer s.Close()
			res, err := s.Client().Post(s.URL, "text/plain", strings.NewReader(sent))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close() //nolint:errcheck // was read
			if got, err := io.ReadAll(res.Body); string(got) != "answer" || err != nil {
				t.Errorf("the client got %q, %v", got, err)
			}
			if last := first < len(sent); res.Close != last {
				t.Errorf("the answer says that it is the last of its connection: %t, want %t", res.Close, last)
			}
		})
	}
}

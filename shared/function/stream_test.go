package function_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
)

// streamed is an output that is written piece by piece.
type streamed func(w io.Writer) error

// Reply implements function.Reply.
func (s streamed) Reply(http.Header) any {
	return function.Raw{ContentType: "application/x-ndjson", Stream: s}
}

func streaming(write func(w io.Writer) error) http.Handler {
	return served(function.Route{Method: http.MethodGet,
		Handle: function.Handle(func(context.Context, function.Empty) (streamed, error) {
			return write, nil
		})})
}

// TestStreams asks over real connections, because what matters is whether a client can tell a body that is whole from
// one that isn't.
func TestStreams(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("x", 999) + "\n"
	lines := func(n int, end func() error) func(io.Writer) error {
		return func(w io.Writer) error {
			for range n {
				if _, err := io.WriteString(w, line); err != nil {
					return err
				}
			}
			return end()
		}
	}
	fine := func() error { return nil }
	down := func() error { return fault.New(fault.Unavailable, "store_unavailable", "Later.") }
	panics := func() error { panic("the secret value") }
	const ndjson, problem = "application/x-ndjson", "application/json"
	for name, c := range map[string]struct {
		method string
		write  func(io.Writer) error
		status int
		kind   string
		// bytes is how many the body has; -1 for a body that is broken off.
		bytes int
	}{
		"a small one":  {method: "GET", write: lines(3, fine), status: 200, kind: ndjson, bytes: 3000},
		"a large one":  {method: "GET", write: lines(500, fine), status: 200, kind: ndjson, bytes: 500_000},
		"an empty one": {method: "GET", write: lines(0, fine), status: 200, kind: ndjson, bytes: 0},
		"the head": {method: "HEAD",
			write: func(io.Writer) error { t.Error("a body was made for nobody"); return nil }, status: 200,
			kind: ndjson, bytes: 0},
		"an error at once":         {method: "GET", write: lines(0, down), status: 503, kind: problem, bytes: 0},
		"an error before any left": {method: "GET", write: lines(10, down), status: 503, kind: problem, bytes: 0},
		"an error on the way":      {method: "GET", write: lines(100, down), status: 200, kind: ndjson, bytes: -1},
		"a panic at once":          {method: "GET", write: lines(0, panics), status: 500, kind: problem, bytes: 0},
		"a panic on the way":       {method: "GET", write: lines(100, panics), status: 200, kind: ndjson, bytes: -1},
		"an error of unknown kind": {method: "GET",
			write: lines(1, func() error { return errors.New("the secret value") }), status: 500, kind: problem,
			bytes: 0},
		"one of two pieces": {method: "GET", write: lines(20, fine), status: 200, kind: ndjson, bytes: 20_000},
	} {
		for _, second := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := httptest.NewUnstartedServer(streaming(c.write))
				s.EnableHTTP2 = second
				s.StartTLS()
				defer s.Close()
				req, err := http.NewRequestWithContext(t.Context(), c.method, s.URL+"/test", nil)
				if err != nil {
					t.Fatal(err)
				}
				response, err := s.Client().Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = response.Body.Close() }()
				body, broken := io.ReadAll(response.Body)
				if response.StatusCode != c.status || response.Header.Get("Content-Type") != c.kind ||
					(response.ProtoMajor == 2) != second {
					t.Errorf("%s %d %v", response.Proto, response.StatusCode, response.Header)
				}
				if (broken != nil) != (c.bytes < 0) || c.kind == ndjson && c.bytes >= 0 && len(body) != c.bytes {
					t.Errorf("%d bytes, %v; want %d", len(body), broken, c.bytes)
				}
				if c.kind == problem && !bytes.Contains(body, []byte(`"request_id"`)) ||
					bytes.Contains(body, []byte("secret value")) {
					t.Errorf("the error's body is %s", body)
				}
			})
		}
	}
}

// TestReaderLeaves: what writes a body learns that nobody reads it any more.
func TestReaderLeaves(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	s := httptest.NewServer(streaming(func(w io.Writer) error {
		for {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				ended <- err
				return err
			}
		}
	}))
	defer s.Close()
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/test", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	leave()
	_ = response.Body.Close()
	if err := <-ended; err == nil {
		t.Error("the writer was not told")
	}
}

// TestBrokenStreamIsLogged is not parallel: it looks at the process's logger. The status of such a call is that of a
// success.
func TestBrokenStreamIsLogged(t *testing.T) { //nolint:paralleltest // see above
	var b bytes.Buffer
	old := slog.Default()
	slog.SetDefault(function.NewLogger(&b, slog.LevelInfo, ""))
	t.Cleanup(func() { slog.SetDefault(old) })
	h := streaming(func(w io.Writer) error {
		_, _ = w.Write(make([]byte, 64<<10))
		return fault.New(fault.Unavailable, "store_unavailable", "Later.").WithCause(errors.New("why"))
	})
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/test", nil))
	for _, part := range []string{`"severity":"WARNING"`, `"status":200`, `"code":"store_unavailable"`, "why"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("%q is not in the line %s", part, b.String())
		}
	}
}

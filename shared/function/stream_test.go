package function_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
)

// streamed is an output that writes its body in pieces.
type streamed func(w io.Writer) error

// Reply implements function.Reply.
func (s streamed) Reply(http.Header) any {
	return function.Raw{ContentType: "application/x-ndjson", Stream: s}
}

func serveStream(write func(w io.Writer) error) http.Handler {
	return servePublic(http.MethodGet, function.Handle(func(context.Context, function.Empty) (streamed, error) {
		return write, nil
	}))
}

// writeLines returns a function that writes n lines of 1000 bytes and then returns end().
func writeLines(n int, end func() error) func(io.Writer) error {
	line := strings.Repeat("x", 999) + "\n"
	return func(w io.Writer) error {
		for range n {
			if _, err := io.WriteString(w, line); err != nil {
				return err
			}
		}
		return end()
	}
}

// TestStream_LateErrorsBreakTheConnection uses real connections, because a client must be able to distinguish a
// complete body from a broken one.
func TestStream_LateErrorsBreakTheConnection(t *testing.T) {
	t.Parallel()
	succeed := func() error { return nil }
	storeDown := func() error { return fault.New(fault.Unavailable, "store_unavailable", "Later.") }
	unknown := func() error { return errors.New("the secret value") }
	panics := func() error { panic("the secret value") }
	const problem, broken = -1, -2 // bodies other than a complete stream
	for name, c := range map[string]struct {
		method     string // GET if empty
		write      func(io.Writer) error
		wantStatus int
		wantBody   int // bytes of the stream, or problem, or broken
	}{
		"small body": {write: writeLines(3, succeed), wantStatus: 200, wantBody: 3000},
		"two chunks": {write: writeLines(20, succeed), wantStatus: 200, wantBody: 20_000},
		"large body": {write: writeLines(500, succeed), wantStatus: 200, wantBody: 500_000},
		"empty body": {write: writeLines(0, succeed), wantStatus: 200, wantBody: 0},
		"HEAD": {
			method: "HEAD", write: func(io.Writer) error { t.Error("HEAD wrote a body"); return nil }, wantStatus: 200,
		},
		"error before the first byte":          {write: writeLines(0, storeDown), wantStatus: 503, wantBody: problem},
		"error before the first chunk":         {write: writeLines(10, storeDown), wantStatus: 503, wantBody: problem},
		"unknown error before the first chunk": {write: writeLines(1, unknown), wantStatus: 500, wantBody: problem},
		"error after the first chunk":          {write: writeLines(100, storeDown), wantStatus: 200, wantBody: broken},
		"panic before the first byte":          {write: writeLines(0, panics), wantStatus: 500, wantBody: problem},
		"panic after the first chunk":          {write: writeLines(100, panics), wantStatus: 200, wantBody: broken},
	} {
		for _, wantHTTP := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, HTTP/%d", name, wantHTTP), func(t *testing.T) {
				t.Parallel()
				s := httptest.NewUnstartedServer(nil)
				s.Config = function.NewServer(serveStream(c.write))
				s.EnableHTTP2 = wantHTTP == 2
				s.StartTLS()
				defer s.Close()
				req, err := http.NewRequestWithContext(t.Context(), cmp.Or(c.method, "GET"), s.URL+"/test", nil)
				if err != nil {
					t.Fatal(err)
				}
				res, err := s.Client().Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = res.Body.Close() }()
				body, err := io.ReadAll(res.Body)
				if res.ProtoMajor != wantHTTP {
					t.Errorf("protocol = HTTP/%d, want HTTP/%d", res.ProtoMajor, wantHTTP)
				}
				if res.StatusCode != c.wantStatus {
					t.Errorf("status = %d, want %d", res.StatusCode, c.wantStatus)
				}
				if got := err != nil; got != (c.wantBody == broken) {
					t.Errorf("reading the body: error %v, want an error = %t", err, c.wantBody == broken)
				}
				if c.wantBody >= 0 && len(body) != c.wantBody {
					t.Errorf("body has %d bytes, want %d", len(body), c.wantBody)
				}
				if c.wantBody == problem {
					checkHeader(t, res.Header, "Content-Type", "application/json")
					if !bytes.Contains(body, []byte(`"request_id"`)) {
						t.Errorf("body = %s, want a problem", body)
					}
				} else {
					checkHeader(t, res.Header, "Content-Type", "application/x-ndjson")
				}
				if bytes.Contains(body, []byte("secret value")) {
					t.Errorf("body reveals the cause: %s", body)
				}
			})
		}
	}
}

func TestStream_WriterFailsAfterTheClientDisconnects(t *testing.T) {
	t.Parallel()
	writerErr := make(chan error, 1)
	s := serveTCP(t, serveStream(func(w io.Writer) error {
		for {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				writerErr <- err
				return err
			}
		}
	}))
	defer s.Close()
	ctx, disconnect := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/test", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	disconnect()
	_ = res.Body.Close()
	if err := <-writerErr; err == nil {
		t.Error("Write succeeded after the client disconnected")
	}
}

// TestStream_LogsLateErrors checks the log line of a call that failed after it sent the status of a success.
func TestStream_LogsLateErrors(t *testing.T) { //nolint:paralleltest // captures the process's logger
	logs := captureLogs(t, "")
	h := serveStream(func(w io.Writer) error {
		_, _ = w.Write(make([]byte, 64<<10))
		return fault.New(fault.Unavailable, "store_unavailable", "Later.").WithCause(errors.New("the cause"))
	})
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/test", nil))
	for _, want := range []string{`"severity":"WARNING"`, `"status":200`, `"code":"store_unavailable"`, "the cause"} {
		if !strings.Contains(logs.String(), want) {
			t.Errorf("log lacks %q: %s", want, logs)
		}
	}
}

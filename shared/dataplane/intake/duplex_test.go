package intake_test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/dataplane/intake"
	"agents.example/controlplane/shared/nettest"
)

// TestDuplex_KeepsTheBodyOpenDuringTheAnswer: http.Transport reads a body again after its last byte, to see that it
// ended. By then, the answer may have begun.
func TestDuplex_KeepsTheBodyOpenDuringTheAnswer(t *testing.T) {
	t.Parallel()
	const sent = "first half, second half"
	for name, first := range map[string]int{"none read": 0, "half read": 11, "all read": len(sent)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				answer, req := intake.Duplex(w, req)
				defer answer.Finish()
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

// TestDuplex_KeepsThatTheAnswerIsTheLast: httputil.ReverseProxy clears the header of the answer after a 1xx.
func TestDuplex_KeepsThatTheAnswerIsTheLast(t *testing.T) {
	t.Parallel()
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
	}))
	defer behind.Close()
	address, err := url.Parse(behind.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(address) }}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Connection", "close")
		answer, req := intake.Duplex(w, req)
		defer answer.Finish()
		proxy.ServeHTTP(answer, req)
	}))
	defer s.Close()
	res, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || !res.Close {
		t.Errorf("the answer says that it is the last of its connection: %t, %v, want that it does", res.Close, err)
	}
}

// TestFinish_EndsAReadInFlight: a transport may wait for the rest of a body when the handler returns.
func TestFinish_EndsAReadInFlight(t *testing.T) {
	t.Parallel()
	handler := func(t *testing.T) http.HandlerFunc {
		return func(w http.ResponseWriter, req *http.Request) {
			answer, req := intake.Duplex(w, req)
			reading, ended := make(chan struct{}), make(chan error, 1)
			go func() {
				_, _ = req.Body.Read(make([]byte, 1))
				close(reading)
				_, err := io.ReadAll(req.Body)
				ended <- err
			}()
			<-reading
			answer.WriteHeader(http.StatusNoContent)
			answer.Finish()
			select {
			case err := <-ended:
				if err == nil {
					t.Error("the read reached the end of a body that the client withheld")
				}
			case <-time.After(time.Millisecond):
				t.Error("after Finish, a read waits for the client")
			}
			if n, err := req.Body.Read(make([]byte, 1)); n != 0 || !errors.Is(err, http.ErrBodyReadAfterClose) {
				t.Errorf("after Finish, the body gives %d bytes, %v", n, err)
			}
		}
	}
	for name, row := range map[string]struct {
		rest string
		want time.Duration // until the connection ends
	}{
		"sends the rest":     {rest: "2"},
		"withholds the rest": {want: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				conn, err := nettest.Serve(t, handler(t)).DialContext(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close() //nolint:errcheck // the test is over
				began := time.Now()
				_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: agent\r\nContent-Length: 2\r\n\r\n1")
				in := bufio.NewReader(conn)
				if answer, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(answer, "HTTP/1.1 204") {
					t.Fatalf("got %q, %v; want 204", answer, err)
				}
				_, _ = io.WriteString(conn, row.rest)
				if _, err := io.ReadAll(in); err != nil {
					t.Errorf("the connection did not end: %v", err)
				}
				if took := time.Since(began); took != row.want {
					t.Errorf("the connection ended after %s, want %s", took, row.want)
				}
			})
		})
	}
}

package cloudrun

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

func TestEndAfter_EndsTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		code := get(EndAfter(time.Minute, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			<-req.Context().Done()
			w.WriteHeader(http.StatusTeapot)
		})))
		if took := time.Since(began); took != time.Minute || code != http.StatusTeapot {
			t.Errorf("the context of a request ended after %v, and its answer is %d; want 1m and 418", took, code)
		}
	})
}

// TestProxy_EndsAnswersAsCloudRun: at the end of its time, an answer that has not begun is 504, and one that has begun
// is broken off.
func TestProxy_EndsAnswersAsCloudRun(t *testing.T) {
	t.Parallel()
	instance := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.WriteString(w, "begun")
		_ = http.NewResponseController(w).Flush()
		<-req.Context().Done()
	}))
	defer instance.Close()
	proxy := NewProxy(instance.Listener.Addr().(*net.TCPAddr).Port) //nolint:forcetypeassert // a server of HTTP has one
	if code := get(EndAfter(0, proxy)); code != http.StatusGatewayTimeout {
		t.Errorf("an answer that has not begun: status %d, want 504", code)
	}

	over, end := context.WithCancel(t.Context())
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx, cancel := context.WithCancel(req.Context())
		defer context.AfterFunc(over, cancel)()
		proxy.ServeHTTP(w, req.WithContext(ctx))
	}))
	defer front.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := front.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // only read
	if _, err := io.ReadFull(res.Body, make([]byte, len("begun"))); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("the answer begins with status %d, %v; want 200", res.StatusCode, err)
	}
	end()
	if _, err := io.ReadAll(res.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("an answer that has begun ended with %v, want io.ErrUnexpectedEOF", err)
	}
}

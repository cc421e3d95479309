package front

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// BenchmarkForward compares the CPU of a request through the front with one through a bare reverse proxy. The figure
// includes the container's and the client's share, which is the same for both.
func BenchmarkForward(b *testing.B) {
	container := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "a small answer")
	}))
	defer container.Close()
	u, err := url.Parse(container.URL)
	if err != nil {
		b.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		b.Fatal(err)
	}
	f, err := New(Options{Port: port, Credentials: Credentials{Username: "admin", Password: "pw", APIKey: "key"}})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	bare := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }, FlushInterval: -1, Transport: f.transport,
	}
	for name, h := range map[string]http.Handler{"front": f, "bare": bare} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			began := cpuTime(b)
			for b.Loop() {
				req := httptest.NewRequest(http.MethodGet, "/v1/models", nil)
				req.Header.Set("Authorization", "Bearer key")
				req.Header.Set("X-Forwarded-For", "192.0.2.1")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, req)
				if w.Code != http.StatusOK {
					b.Fatalf("status %d", w.Code)
				}
			}
			b.ReportMetric(float64(cpuTime(b)-began)/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpuTime returns the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

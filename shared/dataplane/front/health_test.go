package front_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agents.example/controlplane/shared/dataplane/front"
)

// patience bounds every wait. Only a failing test reaches it.
const patience = 2 * time.Minute

// waitUntil polls a condition.
func waitUntil(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}

// countingReader is an endless body that knows how much was read.
type countingReader struct{ n atomic.Int64 }

func (r *countingReader) Read(p []byte) (int, error) {
	r.n.Add(int64(len(p)))
	return len(p), nil
}

func TestReady_MeansThatTheContainerServes(t *testing.T) {
	t.Parallel()
	var status atomic.Int32
	var host atomic.Value
	port := serveContainer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			t.Errorf("the health check requests %s", r.URL.Path)
		}
		host.Store(r.Host)
		if status.Load() == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(int(status.Load()))
	})
	f := start(t, port, func(o *front.Options) { o.HealthPath = "/healthz" })
	for answered, want := range map[int32]int{
		http.StatusOK: 200, http.StatusNoContent: 200, http.StatusFound: 200, http.StatusUnauthorized: 503,
		http.StatusNotFound: 503, http.StatusInternalServerError: 503,
	} {
		status.Store(answered)
		f.clock.advance(time.Second)
		if got, body := f.get(t, "/health/ready"); got != want || strings.Contains(body, "status") {
			t.Errorf("the container answers %d: status %d, body %q; want %d and no details", answered, got, body, want)
		}
	}
	if host.Load() != hostname {
		t.Errorf("the health check is for the host %v, want %s", host.Load(), hostname)
	}
}

func TestReady_WithoutAPathMeansThatThePortsAreOpen(t *testing.T) {
	t.Parallel()
	open, closed := serveContainer(t, func(http.ResponseWriter, *http.Request) {}), refusingPort(t)
	for name, c := range map[string]struct{ port, api, want int }{
		"open":             {port: open, want: 200},
		"closed":           {port: closed, want: 503},
		"API closed":       {port: open, api: closed, want: 503},
		"dashboard closed": {port: closed, api: open, want: 503},
		"both open":        {port: open, api: open, want: 200},
	} {
		f := start(t, c.port, func(o *front.Options) { o.APIPort = c.api })
		if got, _ := f.get(t, "/health/ready"); got != c.want {
			t.Errorf("%s: status %d, want %d", name, got, c.want)
		}
	}
}

// TestReady_ChecksTheContainerSeldom is about a flood of requests, which need no credential.
func TestReady_ChecksTheContainerSeldom(t *testing.T) {
	t.Parallel()
	var checks atomic.Int32
	stopped := time.Now()
	f := start(t, serveContainer(t, func(http.ResponseWriter, *http.Request) { checks.Add(1) }),
		func(o *front.Options) { o.HealthPath, o.Now = "/", func() time.Time { return stopped } })
	for range 50 {
		f.get(t, "/health/ready")
	}
	if got := checks.Load(); got != 1 {
		t.Errorf("the container was asked %d times, want once", got)
	}
}

func TestMemoryMetrics_ReportTheMemoryInUse(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"MemTotal:  1000 kB\nMemFree: 100 kB\nMemAvailable: 400 kB\nOdd\nA: x\n": "agent_memory_used_bytes 614400\n",
		"MemTotal:  1000 kB\nMemAvailable: 2000 kB\n":                            "unknown",
		"": "unknown",
	} {
		file := filepath.Join(t.TempDir(), "meminfo")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		front.MemoryMetrics(file).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if got := w.Body.String(); !strings.Contains(got, want) || (w.Code == http.StatusOK) == (want == "unknown") {
			t.Errorf("%q: status %d: %s; want %s", content, w.Code, got, want)
		}
	}
}

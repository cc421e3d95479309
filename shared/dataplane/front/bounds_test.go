package front_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agents.example/controlplane/shared/dataplane/front"
)

// TestFront_BoundsRequestsWithoutAcceptedCredentials holds 64 requests while the keys of links are fetched. Neither
// clients with a credential nor the kubelet notice.
func TestFront_BoundsRequestsWithoutAcceptedCredentials(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	keys := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer keys.Close()
	end := sync.OnceFunc(func() { close(release) })
	defer end()
	i := newIssuer(t)
	f := start(t, serveContainer(t, func(http.ResponseWriter, *http.Request) {}), func(o *front.Options) {
		o.KeysURL = keys.URL
	})
	var strangers sync.WaitGroup
	retryAfter := ""
	for round := 0; retryAfter == "" && round < 12; round++ { // a fetch ends after 5 s, which a busy machine may need
		retryAfter = f.fill(t, i, round, &strangers)
		f.clock.advance(time.Minute) // until the keys are fetched again
	}
	if retryAfter == "" {
		t.Error("next to 64 requests that wait, none got 503 with Retry-After")
	}
	kubelet := func(r *http.Request) { r.Header.Del("X-Forwarded-For"); r.Host = "192.0.2.1:8080" }
	if got, _ := f.get(t, "/health/ready", kubelet); got != http.StatusOK {
		t.Errorf("the kubelet got %d, want 200", got)
	}
	end()
	strangers.Wait()
	if got, _ := f.get(t, "/v1/models", bearer); got != http.StatusOK {
		t.Errorf("after the others ended, a client got %d, want 200", got)
	}
}

// fill sends 64 requests that wait for the keys of links, and returns the Retry-After of another one that is refused
// while they do; empty if none is.
func (f *fixture) fill(t *testing.T, i *issuer, round int, strangers *sync.WaitGroup) (retryAfter string) {
	t.Helper()
	var left atomic.Int64
	for n := range 64 {
		link := i.link(t, f.clock.now(), fmt.Sprint(round, "-", n))
		left.Add(1)
		strangers.Go(func() {
			defer left.Add(-1)
			res := f.request(t, http.MethodGet, link, from(fmt.Sprintf("198.51.%d.%d", 100+round, n)))
			_ = res.Body.Close() // an open one keeps its connection, and the front accepts 512
		})
	}
	for left.Load() > 0 {
		res := f.request(t, http.MethodGet, "/")
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
		if res.StatusCode == http.StatusServiceUnavailable {
			return res.Header.Get("Retry-After")
		}
		<-time.After(time.Millisecond)
	}
	return ""
}

// TestFront_ForwardedRequestsLeaveRoomForOthers holds more requests in the container than may be without a credential.
func TestFront_ForwardedRequestsLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	const streams = 100
	begun, release := make(chan struct{}, streams), make(chan struct{})
	f := start(t, serveContainer(t, func(http.ResponseWriter, *http.Request) {
		begun <- struct{}{}
		<-release
	}), nil)
	var clients sync.WaitGroup
	for range streams {
		clients.Go(func() {
			if got, _ := f.get(t, "/v1/x", bearer); got != http.StatusOK {
				t.Errorf("a client with the key got %d, want 200", got)
				begun <- struct{}{}
			}
		})
		<-begun
	}
	if got, _ := f.get(t, "/"); got != http.StatusUnauthorized {
		t.Errorf("a request without a credential next to %d streams got %d, want 401", streams, got)
	}
	close(release)
	clients.Wait()
}

func TestFront_RefusesLargeHeaders(t *testing.T) {
	t.Parallel()
	f := start(t, serveContainer(t, func(w http.ResponseWriter, r *http.Request) {
		for n := range len(r.URL.Query().Get("lines")) {
			w.Header().Set(fmt.Sprint("X", n), "y")
		}
	}), nil)
	large := func(r *http.Request) { r.Header.Set("X", strings.Repeat("y", 17<<10)) }
	if got, body := f.get(t, "/v1/x", bearer, large); got != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 17 KiB got %d, want 431: %s", got, body)
	}
	for range 2 {
		if got, body := f.get(t, "/v1/x?lines="+strings.Repeat("x", 140), bearer); got != http.StatusBadGateway ||
			!strings.Contains(body, "larger header") {
			t.Errorf("an answer with 140 lines got %d, want 502 with the reason: %s", got, body)
		}
		if got, _ := f.get(t, "/v1/x?lines="+strings.Repeat("x", 100), bearer); got != http.StatusOK {
			t.Errorf("an answer with 100 lines got %d, want 200", got)
		}
	}
}

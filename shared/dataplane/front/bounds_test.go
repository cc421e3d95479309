package front_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/dataplane/front"
)

// TestFront_BoundsRequestsWithoutAcceptedCredentials holds 64 requests while the keys of links are fetched. Neither
// clients with a credential nor the kubelet notice.
func TestFront_BoundsRequestsWithoutAcceptedCredentials(t *testing.T) {
	t.Parallel()
	const most = 64
	fetching, release := make(chan struct{}), make(chan struct{})
	keys := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(fetching)
		<-release
	}))
	defer keys.Close()
	i := newIssuer(t)
	f := start(t, serveContainer(t, func(http.ResponseWriter, *http.Request) {}), func(o *front.Options) {
		o.KeysURL = keys.URL
	})
	held := make([]*http.Response, most)
	var strangers sync.WaitGroup
	for n := range most {
		link := i.link(t, f.clock.now(), fmt.Sprint(n))
		strangers.Go(func() {
			held[n] = f.request(t, http.MethodGet, link, from(fmt.Sprint("198.51.100.", n)))
		})
	}
	<-fetching
	var status int
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(time.Millisecond) {
		// A body that stays open keeps its connection, and the front accepts 512.
		if status, _ = f.get(t, "/"); status == http.StatusServiceUnavailable {
			break
		}
	}
	if f.request(t, http.MethodGet, "/").Header.Get("Retry-After") == "" {
		t.Error("the refusal has no Retry-After")
	}
	if status != http.StatusServiceUnavailable {
		t.Errorf("a request next to %d that wait got %d, want 503", most, status)
	}
	kubelet := func(r *http.Request) { r.Header.Del("X-Forwarded-For"); r.Host = "192.0.2.1:8080" }
	if got, _ := f.get(t, "/health/ready", kubelet); got != http.StatusOK {
		t.Errorf("the kubelet got %d, want 200", got)
	}
	close(release)
	strangers.Wait()
	if got, _ := f.get(t, "/v1/models", bearer); got != http.StatusOK {
		t.Errorf("after the others ended, a client got %d, want 200", got)
	}
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

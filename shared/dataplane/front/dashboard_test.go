package front_test

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/front"
)

func TestDashboard_ReportsTheStatusOfTheContainer(t *testing.T) {
	t.Parallel()
	var status, looks atomic.Int32
	var header atomic.Pointer[http.Header]
	f := start(t, serveContainer(t, func(w http.ResponseWriter, r *http.Request) {
		looks.Add(1)
		header.Store(&r.Header)
		if r.Method != http.MethodGet || r.RequestURI != "/" || r.Host != hostname {
			t.Errorf("the container got %s %s%s", r.Method, r.Host, r.RequestURI)
		}
		w.WriteHeader(int(status.Load()))
	}), nil)
	for _, want := range []int{200, 302, 403, 500} {
		status.Store(int32(want))
		f.clock.advance(10 * time.Second)
		before := looks.Load()
		for range 3 {
			res := f.request(t, http.MethodGet, dataplane.PathDashboard)
			if got := res.Header.Get(dataplane.HeaderDashboardStatus); res.StatusCode != http.StatusNoContent ||
				got != strconv.Itoa(want) {
				t.Errorf("status %d with the dashboard's %q, want 204 with %d", res.StatusCode, got, want)
			}
			if res.Header.Get(dataplane.HeaderPublic) == "" {
				t.Error("the router may take a stranger for a client")
			}
		}
		if n := looks.Load() - before; n != 1 {
			t.Errorf("the container was asked %d times in ten seconds, want once", n)
		}
	}
	wantHeaders(t, "a look", *header.Load(), map[string]string{
		"User": "admin", "Preferred-Username": "admin", "Auth": "basic", "For": "203.0.113.7",
		"X-Real-Ip": "203.0.113.7", "Host": hostname, "Proto": "https",
	})
	if header.Load().Get("Authorization") != "" {
		t.Error("the container got a credential")
	}
}

func TestDashboard_GivesImagesTheCredentialThatTheyCheck(t *testing.T) {
	t.Parallel()
	f := start(t, serveContainer(t, func(w http.ResponseWriter, r *http.Request) {
		if name, pass, _ := r.BasicAuth(); name != user || pass != password {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}), func(o *front.Options) { o.ForwardCredentials = true })
	res := f.request(t, http.MethodGet, dataplane.PathDashboard)
	if got := res.Header.Get(dataplane.HeaderDashboardStatus); got != "200" {
		t.Errorf("the dashboard's status is %q, want 200", got)
	}
}

// TestDashboard_StrangersDoNotWaitForALook keeps a slow container from using up what the front can serve.
func TestDashboard_StrangersDoNotWaitForALook(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}, 1), make(chan struct{})
	f := start(t, serveContainer(t, func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-release
	}), nil)
	first := make(chan string, 1)
	go func() {
		first <- f.request(t, http.MethodGet, dataplane.PathDashboard).Header.Get(dataplane.HeaderDashboardStatus)
	}()
	<-asked
	if res := f.request(t, http.MethodGet, dataplane.PathDashboard); res.StatusCode != http.StatusServiceUnavailable ||
		res.Header.Get("Retry-After") == "" {
		t.Errorf("during the first look: status %d, want 503 with Retry-After", res.StatusCode)
	}
	close(release)
	if got := <-first; got != "200" {
		t.Errorf("the look found %q, want 200", got)
	}
}

func TestDashboard_IsNotReadyWithoutItsContainer(t *testing.T) {
	t.Parallel()
	f := start(t, refusingPort(t), nil)
	if got, _ := f.get(t, dataplane.PathDashboard); got != http.StatusServiceUnavailable {
		t.Errorf("status %d, want 503", got)
	}
}

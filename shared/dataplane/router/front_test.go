package router_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/front"
	"agents.example/controlplane/shared/dataplane/router"
)

// startFront runs the front of an agent that sleeps as soon as it is idle for a moment. The control plane answers its
// reports with a status.
func (w *world) startFront(a agent.Agent, after time.Duration, status int) (closed <-chan struct{}) {
	t := w.t
	reports := make(chan struct{}, 8)
	control := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		reports <- struct{}{}
	}))
	t.Cleanup(control.Close)
	container := httptest.NewServer(http.HandlerFunc(fine))
	t.Cleanup(container.Close)
	f, err := front.New(front.Options{
		Hostname: hostname(a), Port: int(addressOf(container.Listener).Port()),
		KeysURL:     control.URL + dataplane.PathKeys,
		Credentials: front.Credentials{Username: "admin", Password: "p", APIKey: "k"}, AgentID: a.ID,
		SleepAfter: after, DrainTime: time.Nanosecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	l, address := w.listenForAgent()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var serving sync.WaitGroup
	serving.Go(func() { _ = f.Serve(ctx, l) })
	t.Cleanup(func() { stop(); serving.Wait() })
	w.set(a, router.Endpoint{State: router.Ready, Addr: address, Wakes: true})
	return reports
}

// TestHold_SendsAgainWhatARealFrontRefused: the body comes whole to the pod that was woken.
func TestHold_SendsAgainWhatARealFrontRefused(t *testing.T) {
	t.Parallel()
	at := &alarm{}
	w := newWorld(t, func(o *router.Options) { o.Waker = at })
	a := newAgent("a")
	closed := w.startFront(a, 100*time.Millisecond, http.StatusOK)
	<-closed
	req := w.request(http.MethodPost, hostname(a), "/v1/p", io.NopCloser(strings.NewReader(strings.Repeat("x", 1<<20))))
	got := w.background(w.with(req, "Authorization", "Bearer k"))
	page := w.background(
		w.with(w.request(http.MethodGet, hostname(a), "/page", nil), "Authorization", "Basic YWRtaW46cA=="))
	stranger, _ := w.get(hostname(a), "/v1/p")
	if stranger.status != http.StatusUnauthorized {
		t.Errorf("without a key: got %d at the closed door, want 401", stranger.status)
	}
	door, _ := w.get(hostname(a), dataplane.PathDoor)
	if door.status != http.StatusNoContent || door.header.Get(dataplane.HeaderDoor) == "" {
		t.Errorf("the worker finds %d and the door %q, want 204 and its name", door.status,
			door.header.Get(dataplane.HeaderDoor))
	}
	for end := time.Now().Add(patience); at.count() == 0 && time.Now().Before(end); {
		<-time.After(time.Millisecond)
	}
	w.sleep(a)
	<-time.After(100 * time.Millisecond)
	w.startFront(a, time.Hour, http.StatusOK)
	if res := <-got; res.status != http.StatusOK || res.body != "POST /v1/p 1048576" {
		t.Errorf("got %d %q, want all of the body to arrive", res.status, res.body)
	}
	if res := <-page; res.status != http.StatusOK || res.header.Get(dataplane.HeaderDoor) != "" {
		t.Errorf("got %d, want 200", res.status)
	}
}

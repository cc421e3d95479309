package router_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"agents.example/controlplane/shared/dataplane/router"
)

func TestNotifier_AsksWithTheAgentsID(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	asked := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		asked <- req.Method + " " + req.URL.Path
		w.WriteHeader(int(status.Load()))
	}))
	defer s.Close()
	n, err := router.NewNotifier(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	for want, ok := range map[int]bool{202: true, 200: false, 400: false, 503: false, 307: false} {
		status.Store(int64(want))
		if err := n.Wake(t.Context(), "an-id"); (err == nil) != ok {
			t.Errorf("Wake with an answer of %d = %v", want, err)
		}
		if got := <-asked; got != "POST /wake/an-id" {
			t.Errorf("the notifier got %s", got)
		}
	}
	s.Close()
	if err := n.Wake(t.Context(), "an-id"); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("Wake without a notifier = %v", err)
	}
	for _, base := range []string{
		"", "agent-notifier:8080", "ftp://x", "http://", "http://x/y", "http://x?y", "http://\x00",
	} {
		if _, err := router.NewNotifier(base); err == nil {
			t.Errorf("NewNotifier(%q) succeeds", base)
		}
	}
}

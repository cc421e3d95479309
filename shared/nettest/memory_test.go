package nettest_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/nettest"
)

func TestServe_WaitsInVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := nettest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			<-time.After(time.Hour)
			w.WriteHeader(http.StatusNoContent)
		}))
		began := time.Now()
		for range 2 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://anything.test/", nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := m.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusNoContent {
				t.Errorf("status %d, %v; want 204", res.StatusCode, err)
			}
		}
		if took := time.Since(began); took != 2*time.Hour || m.Connections() != 1 {
			t.Errorf("took %s over %d connections, want 2h0m0s over one", took, m.Connections())
		}
	})
}

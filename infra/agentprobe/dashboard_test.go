package agentprobe

import (
	"net/http"
	"testing"
	"time"
)

func TestDashboard_IsWhatTheFrontSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer     int
		header     string
		ready      int
		want       int
		wantReason string
		wantStatus int
	}{
		"works":                      {answer: 204, header: "200", want: 200},
		"redirects":                  {answer: 204, header: "302", want: 302},
		"refuses":                    {answer: 204, header: "403", want: 403},
		"fails":                      {answer: 204, header: "500", want: 500},
		"not ready":                  {answer: 503, header: "200", wantReason: "bad_status", wantStatus: 503},
		"no status":                  {answer: 204, wantReason: "bad_status", wantStatus: 204},
		"no number":                  {answer: 204, header: "ok", wantReason: "bad_status", wantStatus: 204},
		"no status's number":         {answer: 204, header: "-7", wantReason: "bad_status", wantStatus: 204},
		"of a former front":          {answer: 401, ready: 200, want: 200},
		"of a former front, unready": {answer: 401, ready: 503, want: 200, wantReason: "bad_status", wantStatus: 503},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "" {
					t.Error("the probe has a credential")
				}
				if r.URL.Path == readyPath {
					w.WriteHeader(c.ready)
					return
				}
				if r.URL.Path != "/health/dashboard" {
					t.Errorf("the probe asked for %s", r.URL.Path)
				}
				if c.header != "" {
					w.Header().Set("X-Agent-Dashboard-Status", c.header)
				}
				w.WriteHeader(c.answer)
			})
			p := New(Options{Addresses: addresses("http", ""), DialAddress: hostOf(t, s)})
			got, err := p.Dashboard(t.Context(), testAgent())
			if c.wantReason != "" {
				wantUnhealthy(t, err, c.wantReason, c.wantStatus)
			} else if got != c.want || err != nil {
				t.Errorf("status %d, %v; want %d", got, err, c.want)
			}
		})
	}
}

// TestDashboard_WaitsLongerThanTheFront: a dashboard that hangs is reported as one, not as an agent that hangs.
func TestDashboard_WaitsLongerThanTheFront(t *testing.T) {
	t.Parallel()
	const front = 5*time.Second + time.Second // its look and its check of the container's readiness
	if dashboardTimeout <= front {
		t.Errorf("the probe waits for %s, want more than the front's %s", dashboardTimeout, front)
	}
}

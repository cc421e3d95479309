package agentprobe

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"agents.example/controlplane/shared/provisioning"
)

func TestDoor_IsWhatTheFrontSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status  int
		header  map[string]string
		code    string // of the router
		want    provisioning.Door
		refused bool
	}{
		"closed": {
			status: 204, header: map[string]string{"X-Agent-Door": "d", "X-Agent-Door-Seconds": "12"},
			want: provisioning.Door{Closed: "d", Left: 12 * time.Second},
		},
		"open": {status: 204},
		"no time": {
			status: 204, header: map[string]string{"X-Agent-Door": "d"}, want: provisioning.Door{Closed: "d"},
		},
		"of a former front":     {status: 401},
		"no pod":                {status: 503, code: "agent_not_ready", want: provisioning.Door{Gone: true}},
		"no pod of its owner":   {status: 503, code: "agent_stopped", want: provisioning.Door{Gone: true}},
		"no agent":              {status: 404, code: "not_found", want: provisioning.Door{Gone: true}},
		"a router that is busy": {status: 503, code: "router_busy", refused: true},
		"too many strangers":    {status: 503, code: "agent_busy", refused: true},
		"a front that is busy":  {status: 503, refused: true},
		"another agent's front": {status: 421, refused: true},
		"the agent broke off":   {status: 502, code: "agent_unreachable", refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/health/door" || r.Header.Get("Authorization") != "" {
					t.Errorf("the probe asked for %s with %v", r.URL.Path, r.Header)
				}
				for key, value := range c.header {
					w.Header().Set(key, value)
				}
				if c.code != "" {
					w.Header().Set("X-Request-Id", "r")
				}
				w.WriteHeader(c.status)
				if c.code != "" {
					_, _ = fmt.Fprintf(w, `{"detail": "d", "code": %q}`, c.code)
				}
			})
			p := New(Options{Addresses: addresses("http", ""), DialAddress: hostOf(t, s)})
			got, err := p.Door(t.Context(), testAgent())
			if got != c.want || (err != nil) != c.refused {
				t.Errorf("%+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

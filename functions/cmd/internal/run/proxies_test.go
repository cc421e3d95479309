package run

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestBehindProxies_RemovesOnlyOurAddresses(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		hops int
		sent []string
		want string
	}{
		"no proxy":      {hops: 0, sent: []string{"198.51.100.1"}, want: "198.51.100.1"},
		"load balancer": {hops: 1, sent: []string{"198.51.100.1, 203.0.113.9"}, want: "198.51.100.1"},
		"client sends the header": {
			hops: 1, sent: []string{"192.0.2.66,198.51.100.1, 203.0.113.9"},
			want: "192.0.2.66,198.51.100.1",
		},
		"several headers":           {hops: 1, sent: []string{"198.51.100.1", "203.0.113.9"}, want: "198.51.100.1"},
		"fewer addresses than hops": {hops: 2, sent: []string{"198.51.100.1"}, want: "198.51.100.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			h := BehindProxies(http.HandlerFunc(func(_ http.ResponseWriter,
				req *http.Request,
			) {
				got = req.Header.Get("X-Forwarded-For")
			}), row.hops)
			req := httptest.NewRequest(http.MethodGet, "/", nil)
			req.Header["X-Forwarded-For"] = row.sent
			h.ServeHTTP(httptest.NewRecorder(), req)
			if got != row.want {
				t.Errorf("X-Forwarded-For = %q, want %q", got, row.want)
			}
		})
	}
}

package function_test

import (
	"testing"
)

// TestRoute_CountsFailuresOfWhatOneClientHas sends failed authentications from several addresses. The limit is two.
func TestRoute_CountsFailuresOfWhatOneClientHas(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		chains     []string // X-Forwarded-For
		wantStatus int      // of the last call
	}{
		"addresses of one IPv6 network": {
			chains: []string{"2001:db8:1:2::1", "2001:db8:1:2:ffff::2", "2001:db8:1:2::3"}, wantStatus: 429,
		},
		"IPv6 networks":  {chains: []string{"2001:db8:1:2::1", "2001:db8:1:3::1", "2001:db8:1:4::1"}, wantStatus: 401},
		"IPv4 addresses": {chains: []string{"198.51.100.1", "198.51.100.2", "198.51.100.3"}, wantStatus: 401},
		"one address, written in two ways": {
			chains: []string{"198.51.100.1", "::ffff:198.51.100.1", "198.51.100.1"}, wantStatus: 429,
		},
		"one address behind forged ones": {
			chains: []string{"1.1.1.1,198.51.100.1", "2.2.2.2, 198.51.100.1", "3.3.3.3,198.51.100.1"}, wantStatus: 429,
		},
		"texts that are no address": {chains: []string{"a", "b", "<c>"}, wantStatus: 429},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var handlerErr error
			h, got := serveLimitedRoutes(&handlerErr), 0
			for _, chain := range row.chains {
				req := newRequest("GET", "/agents", "garbage", "")
				req.Header.Set("X-Forwarded-For", chain)
				got = send(t, h, req).status
			}
			if got != row.wantStatus {
				t.Errorf("status of the last call = %d, want %d", got, row.wantStatus)
			}
		})
	}
}

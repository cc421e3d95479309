package publicnet

import (
	"context"
	"errors"
	"net/netip"
	"testing"
)

// A first check that is wrong must not be enough: the address is checked again when the socket connects.
func TestDial_ChecksTheSocketAgain(t *testing.T) {
	t.Parallel()
	checks := 0
	d := Dialer{
		Find: func(context.Context, string, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		},
		Allow: func(netip.Addr) bool {
			checks++
			return checks == 1
		},
	}
	if _, err := d.DialContext(t.Context(), "tcp", "hooks.example.com:1"); !errors.Is(err, ErrNotPublic) {
		t.Errorf("error = %v, want %v", err, ErrNotPublic)
	}
}

func TestGuard_RefusesWhatIsNotPublic(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]error{
		"34.117.59.81:443": nil, "[2600:1901::1]:443": nil,
		"10.0.0.1:443": ErrNotPublic, "[::1]:443": ErrNotPublic, "[fe80::1%1]:443": ErrNotPublic, "": ErrNotPublic,
	} {
		if err := (Dialer{}).guard(t.Context(), "tcp", address, nil); !errors.Is(err, want) {
			t.Errorf("guard(%q) = %v, want %v", address, err, want)
		}
	}
}

package gke

import (
	"errors"
	"strings"
	"testing"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

func wantPermanent(t *testing.T, err error, code string) {
	t.Helper()
	var p *provisioning.Permanent
	if !errors.As(err, &p) || p.Code != code || p.Message == "" {
		t.Errorf("error %v, want Permanent %s", err, code)
	}
}

func wantUnavailable(t *testing.T, err error, code string) {
	t.Helper()
	if !fault.Is(err, fault.Unavailable) || fault.Code(err) != code {
		t.Errorf("error %v, want Unavailable %s", err, code)
	}
}

func wantFailure(t *testing.T, err error, code string, permanent bool, parts ...string) {
	t.Helper()
	var f *provisioning.PodFailure
	if !errors.As(err, &f) || f.Code != code || f.Permanent != permanent {
		t.Errorf("error %v, want a PodFailure %s, permanent %t", err, code, permanent)
		return
	}
	for _, part := range parts {
		if !strings.Contains(f.Message, part) {
			t.Errorf("message %q, want it to contain %q", f.Message, part)
		}
	}
}

// must fails the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// errorOf drops the result of a call that also returns an error.
func errorOf[T any](_ T, err error) error { return err }

package clients

import (
	"context"
	"io"
	"testing"

	"agents.example/controlplane/shared/clientrelease"
	"agents.example/controlplane/shared/fault"
)

// releases has the lists of some versions.
type releases []string

// Versions implements clientrelease.Store.
func (r releases) Versions(context.Context) ([]string, error) { return r, nil }

// Release implements clientrelease.Store.
func (r releases) Release(_ context.Context, version string) (clientrelease.Release, error) {
	return clientrelease.Release{Version: version}, nil
}

// Open implements clientrelease.Store.
func (r releases) Open(context.Context, clientrelease.File) (io.ReadCloser, error) { return nil, nil }

// TestCatalog_ServesTheClientsOfItsRelease: after a roll-back, the newest clients call what the service does not have.
func TestCatalog_ServesTheClientsOfItsRelease(t *testing.T) {
	t.Parallel()
	const older, newer, unpublished = "1.20260102.0", "1.20261127.203023", "1.20261128.0"
	for own, want := range map[string]string{older: older, newer: newer, "": newer, unpublished: ""} {
		c := newCatalog(releases{newer, older})
		c.own = own
		r, err := c.current(t.Context())
		if r.Version != want || fault.Is(err, fault.NotFound) != (want == "") {
			t.Errorf("a binary of the release %q serves %q, %v, want %q", own, r.Version, err, want)
		}
	}
}

package clients

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"golang.org/x/time/rate"

	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/clientrelease"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/ratelimit"
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
func (r releases) Open(context.Context, clientrelease.File) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(strings.Repeat("x", fileSize))), nil
}

const fileSize = 1 << 20

// limited takes a number of bytes, and ends.
type limited int

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), int(*l))
	if *l -= limited(n); n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

// TestSend_BoundsTheBytesOfAnInstance: the operator pays for each byte that a stranger downloads. Who ends downloads
// early does not spend what others may download.
func TestSend_BoundsTheBytesOfAnInstance(t *testing.T) {
	t.Parallel()
	s := &service{
		catalog: newCatalog(releases{}), slots: ratelimit.NewSlots(slots()), budget: rate.NewLimiter(0, 3*fileSize),
	}
	ctx := call.With(t.Context(), &call.Call{})
	send := func(taken limited) error { return s.send(ctx, clientrelease.File{Size: fileSize}, &taken) }
	for range 100 {
		if err := send(1000); !errors.Is(err, io.ErrShortWrite) {
			t.Fatalf("a download that ends early: %v", err)
		}
	}
	for range 2 {
		if err := send(fileSize); err != nil {
			t.Errorf("another download: %v", err)
		}
	}
	var refusal *fault.Error
	if err := send(fileSize); !errors.As(err, &refusal) || refusal.Code != "too_many_downloads" ||
		refusal.RetryAfter == 0 {
		t.Errorf("a download beyond the budget: %v, want a refusal that says when to retry", err)
	}
}

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

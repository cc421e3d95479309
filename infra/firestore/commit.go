package firestore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	gcp "cloud.google.com/go/firestore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/shared/fault"
)

// withTimeout gives a call its deadline. It starts no timer when ctx ends sooner, because timers cost.
func (c *Client) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= c.timeout {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.timeout)
}

// read reads documents in one call and returns a snapshot for each, in the order of refs. A document that does not
// exist has a snapshot, too.
func (c *Client) read(ctx context.Context, refs ...*gcp.DocumentRef) ([]*gcp.DocumentSnapshot, error) {
	ctx, cancel := c.withTimeout(ctx)
	defer cancel()
	snaps, err := c.db.GetAll(ctx, refs)
	if err != nil {
		return nil, faultOf("read", err)
	}
	if len(snaps) > 0 {
		c.databaseClock.observe(snaps[0].ReadTime)
	}
	return snaps, nil
}

// readOne reads one document, which may not exist.
func (c *Client) readOne(ctx context.Context, ref *gcp.DocumentRef) (*gcp.DocumentSnapshot, error) {
	snaps, err := c.read(ctx, ref)
	if err != nil {
		return nil, err
	}
	return snaps[0], nil
}

// readUnlessFetched returns the snapshot that was fetched together with the caller's API key. If that is nil, it reads
// the document.
func (c *Client) readUnlessFetched(ctx context.Context, ref *gcp.DocumentRef, fetched any) (*gcp.DocumentSnapshot,
	error,
) {
	if snap, ok := fetched.(*gcp.DocumentSnapshot); ok {
		return snap, nil
	}
	return c.readOne(ctx, ref)
}

// batch collects the writes of one atomic commit. The library recommends BulkWriter, which is not atomic, or
// transactions, which lock.
type batch = gcp.WriteBatch //nolint:staticcheck // see above

// batch returns an empty batch.
func (c *Client) batch() *batch {
	return c.db.Batch() //nolint:staticcheck // see the type
}

// commit writes all of a batch or nothing, and returns the new version of the batch's first document. The error is an
// *undecided when only another read can show what to do next.
func (c *Client) commit(ctx context.Context, b *batch) (version string, err error) {
	ctx, cancel := c.withTimeout(ctx)
	defer cancel()
	results, err := b.Commit(ctx)
	if err != nil {
		return "", commitError(err)
	}
	return versionOf(results[0].UpdateTime), nil
}

// commitError is the error of a commit that failed.
func commitError(err error) error {
	switch codeOf(err) {
	case codes.FailedPrecondition, codes.NotFound, codes.AlreadyExists, codes.Aborted:
		return &undecided{cause: err}
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Internal, codes.Unknown,
		codes.Canceled: // also when the service itself gave up
		return &undecided{cause: err, unknown: true}
	default:
		return faultOf("commit", err)
	}
}

// undecided is the error of a commit that lost a race. When unknown is true, the commit may have been carried out.
type undecided struct {
	cause   error
	unknown bool
}

// Error implements error.
func (u *undecided) Error() string { return u.cause.Error() }

// Unwrap returns the cause.
func (u *undecided) Unwrap() error { return u.cause }

// Limits of retryUntilDecided.
const (
	// maxUnknown is how many commits may end with an unknown outcome. Lost races have no limit but the deadline,
	// because each of them means that a competitor succeeded.
	maxUnknown = 3
	firstPause = 5 * time.Millisecond
	maxPause   = 250 * time.Millisecond
)

// retryUntilDecided runs try until it returns nil or an error that is not undecided. try reads, computes and commits.
// again is true when a commit of an earlier run may have been carried out. Errors: those of try, Unavailable.
func (c *Client) retryUntilDecided(ctx context.Context, try func(ctx context.Context, again bool) error) error {
	ctx, cancel := c.withTimeout(ctx)
	defer cancel()
	unknown := 0
	for n := 0; ; n++ {
		err := try(ctx, n > 0)
		var u *undecided
		if !errors.As(err, &u) {
			return err
		}
		if u.unknown {
			unknown++
		}
		if unknown == maxUnknown || !pause(ctx, n) {
			return unavailable("commit", u.cause)
		}
	}
}

// pause waits a random time after attempt n, so that competitors spread. It is false when ctx ended first.
func pause(ctx context.Context, n int) bool {
	most := min(firstPause<<min(n, 10), maxPause)
	timer := time.NewTimer(rand.N(most)) //nolint:gosec // spreads load, protects nothing
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// versionBase makes a version short, because it is part of an entity tag.
const versionBase = 36

// versionOf is the version of a document that was last written at t.
func versionOf(t time.Time) string { return strconv.FormatInt(t.UnixNano(), versionBase) }

var errNoVersion = errors.New("not a version of a document")

// updateTimeOf is the inverse of versionOf. It is for the precondition that the document still has the version.
func updateTimeOf(version string) (time.Time, error) {
	nanos, err := strconv.ParseInt(version, versionBase, 64)
	if err != nil || nanos <= 0 {
		return time.Time{}, errNoVersion
	}
	return time.Unix(0, nanos).UTC(), nil
}

// codeOf is the gRPC code of an error, also when ctx ended before a call was made.
func codeOf(err error) codes.Code {
	switch code := status.Code(err); {
	case code != codes.Unknown:
		return code
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	default:
		return code
	}
}

// faultOf maps Firestore's errors to faults. It does not map NotFound: callers know what is missing.
func faultOf(doing string, err error) error {
	var known *fault.Error
	if errors.As(err, &known) {
		return err
	}
	switch codeOf(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Aborted, codes.ResourceExhausted, codes.Canceled:
		return unavailable(doing, err)
	default:
		return fault.From(fmt.Errorf("firestore: %s: %w", doing, err))
	}
}

// unavailable is the error of a call that may succeed when it is repeated.
func unavailable(doing string, err error) error {
	return fault.New(fault.Unavailable, "store_unavailable",
		"The database is temporarily unavailable. Retry in a few seconds.").
		WithCause(fmt.Errorf("firestore: %s: %w", doing, err))
}

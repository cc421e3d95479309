package firestore

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	gcp "cloud.google.com/go/firestore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// bound is the one place that gives calls their deadline. One that ends sooner already is left alone, because every
// timer costs.
func (c *Client) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= c.timeout {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.timeout)
}

// read fetches documents in one call, in the order asked for. Those that don't exist are in the answer, too.
func (c *Client) read(ctx context.Context, refs ...*gcp.DocumentRef) ([]*gcp.DocumentSnapshot, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	snaps, err := c.db.GetAll(ctx, refs)
	if err != nil {
		return nil, failure("read", err)
	}
	return snaps, nil
}

// batch is the writes of one commit. The library recommends BulkWriter, which is not atomic, or transactions, which
// lock; what is needed is an atomic commit with preconditions.
type batch = gcp.WriteBatch //nolint:staticcheck // see above

// batch begins the writes of one commit.
func (c *Client) batch() *batch {
	return c.db.Batch() //nolint:staticcheck // see the type
}

// commit writes a batch, all or nothing, and returns the new version of the document that was written first.
// The error is an undecided one, for settle, when reading again can tell how to go on.
func (c *Client) commit(ctx context.Context, b *batch) (version string, err error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	results, err := b.Commit(ctx)
	switch code := codeOf(err); code {
	case codes.OK:
		return versionAt(results[0].UpdateTime), nil
	case codes.FailedPrecondition, codes.NotFound, codes.AlreadyExists, codes.Aborted:
		return "", &undecided{cause: err}
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Internal, codes.Unknown:
		return "", &undecided{cause: err, unknown: true}
	default:
		return "", failure("commit", err)
	}
}

// undecided is a commit that lost to another one, or whose outcome is unknown. Only the next read tells.
type undecided struct {
	cause   error
	unknown bool
}

// Error implements error.
func (u *undecided) Error() string { return u.cause.Error() }

// Unwrap returns the cause.
func (u *undecided) Unwrap() error { return u.cause }

// Limits of the repetitions of a change.
const (
	// maxUnknown is how many commits with an unknown outcome are looked into. Lost races are repeated until the
	// deadline: of those that compete, one has won each time.
	maxUnknown = 3
	firstPause = 5 * time.Millisecond
	maxPause   = 250 * time.Millisecond
)

// retryUntilDecided runs try until it decides: until it returns nil, or an error that isn't undecided. try reads,
// computes and commits; again tells it that the former run's commit may have happened. Errors: those of try,
// Unavailable.
func (c *Client) retryUntilDecided(ctx context.Context, try func(ctx context.Context, again bool) error) error {
	ctx, cancel := c.bound(ctx)
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

// pause waits before attempt n is repeated, a random time so that competitors spread. It is false when ctx ended first.
func pause(ctx context.Context, n int) bool {
	most := min(firstPause<<min(n, 10), maxPause)
	timer := time.NewTimer(rand.N(most)) //nolint:gosec // it spreads load, it guards nothing
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// observe makes the interceptors that report every call.
func observe(report func(method string)) []grpc.DialOption {
	unary := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption) error {
		report(method)
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	stream := func(
		ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer,
		opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		report(method)
		return open(ctx, desc, cc, method, opts...)
	}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(stream)}
}

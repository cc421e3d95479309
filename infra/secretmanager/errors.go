package secretmanager

import (
	"context"
	"errors"
	"fmt"
	"time"

	client "cloud.google.com/go/secretmanager/apiv1"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
)

const (
	// callTimeout bounds every call of the service, whatever time its caller has left.
	callTimeout = 10 * time.Second
	// repeatAfter is how long a repeated read waits: long enough for a broken connection to be replaced.
	repeatAfter = 50 * time.Millisecond
	// quotaWindow is the time to which the service's quotas apply.
	quotaWindow = time.Minute
)

// callOptions have the calls repeated, once, that change nothing when they are repeated; the client's own would have
// AccessSecretVersion repeated until its deadline. All other calls are made once.
func callOptions() *client.CallOptions {
	repeat := []gax.CallOption{gax.WithRetry(func() gax.Retryer { return &onceMore{} })}
	return &client.CallOptions{
		GetSecret: repeat, ListSecrets: repeat, ListSecretVersions: repeat, AccessSecretVersion: repeat,
		DeleteSecret: repeat,
	}
}

// onceMore repeats a call whose connection broke.
type onceMore struct{ done bool }

// Retry implements gax.Retryer.
func (r *onceMore) Retry(err error) (time.Duration, bool) {
	again := !r.done && status.Code(err) == codes.Unavailable
	r.done = true
	return repeatAfter, again
}

// code is the error's code; a context's end has one, too.
func code(err error) codes.Code {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	default:
		return status.Code(err)
	}
}

// translate maps an error of the service to a fault. Known errors are Unavailable, because operators fix permissions
// and quotas while the work waits. Any other error is a defect and stays an unknown error.
func translate(doing string, err error) error {
	if err == nil {
		return nil
	}
	cause := fmt.Errorf("secret manager: %s: %w", doing, err)
	switch code(err) {
	case codes.PermissionDenied, codes.Unauthenticated:
		return fault.New(fault.Unavailable, "secret_store_denied",
			"The secret store denied access to the service. Contact support, then retry.").WithCause(cause)
	case codes.ResourceExhausted:
		exceeded := fault.New(fault.Unavailable, "secret_quota_exceeded",
			"The secret store's quota is exhausted. Retry in a minute.")
		exceeded.RetryAfter = quotaWindow
		return exceeded.WithCause(cause)
	case codes.FailedPrecondition:
		return fault.New(fault.Unavailable, "secret_value_unavailable",
			"A version in the secret store is disabled or destroyed. Contact support to enable it, then retry.").
			WithCause(cause)
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Aborted, codes.Internal, codes.Unknown,
		codes.DataLoss,
		codes.NotFound: // deleted between two calls
		return fault.New(fault.Unavailable, "secret_store_unavailable",
			"The secret store is temporarily unavailable. Retry.").WithCause(cause)
	default:
		return cause
	}
}

// translateAdd is translate for an error of adding a version. It wraps credential.ErrRefused after the codes with which
// the service answers only a request that it did not carry out.
func translateAdd(doing string, err error) error {
	switch code(err) {
	case codes.PermissionDenied, codes.Unauthenticated, codes.ResourceExhausted, codes.InvalidArgument,
		codes.NotFound, codes.FailedPrecondition, codes.Unimplemented:
		err = fmt.Errorf("%w: %w", credential.ErrRefused, err)
	default:
	}
	return translate(doing, err)
}

// translateValue is translate for a version's value, which may be gone for good.
func translateValue(doing string, err error) error {
	switch code(err) {
	case codes.NotFound, codes.FailedPrecondition:
		return fault.New(fault.BadRequest, "secret_value_unavailable",
			"The value is no longer in the secret store. Set it again.").
			WithCause(fmt.Errorf("secret manager: %s: %w", doing, err))
	default:
		return translate(doing, err)
	}
}

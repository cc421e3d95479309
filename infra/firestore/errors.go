package firestore

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/shared/fault"
)

// codeOf is the gRPC code of an error, also of one that a context's end caused without a call being made.
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

// failure is the one mapping of Firestore's errors to the vocabulary of faults. What "not found" means depends on what
// was looked for, so the callers, who ask for documents that need not exist, decide it themselves.
func failure(doing string, err error) error {
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

// unavailable is the error of what may succeed when it is tried again.
func unavailable(doing string, err error) error {
	return fault.New(fault.Unavailable, "store_unavailable",
		"The database can't be reached at the moment. Try again in a few seconds.").
		WithCause(fmt.Errorf("firestore: %s: %w", doing, err))
}

package fault_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"agents.example/controlplane/shared/fault"
)

func TestKinds(t *testing.T) {
	t.Parallel()
	want := map[fault.Kind]struct {
		status    int
		retryable bool
	}{
		fault.Internal: {status: 500, retryable: true}, fault.BadRequest: {status: 400, retryable: false},
		fault.Unauthenticated: {status: 401, retryable: false}, fault.PaymentRequired: {status: 402, retryable: false},
		fault.Forbidden: {status: 403, retryable: false}, fault.NotFound: {status: 404, retryable: false},
		fault.MethodNotAllowed: {status: 405, retryable: false}, fault.Conflict: {status: 409, retryable: false},
		fault.PreconditionFailed: {status: 412, retryable: false}, fault.TooLarge: {status: 413, retryable: false},
		fault.UnsupportedMedia: {status: 415, retryable: false}, fault.Invalid: {status: 422, retryable: false},
		fault.RateLimited: {status: 429, retryable: true}, fault.Unavailable: {status: 503, retryable: true},
	}
	for kind, w := range want {
		if kind.Status() != w.status || kind.Retryable() != w.retryable || kind.Title() != http.StatusText(w.status) {
			t.Errorf("kind %d: %d %q, retryable %t", kind, kind.Status(), kind.Title(), kind.Retryable())
		}
	}
}

func TestFrom(t *testing.T) {
	t.Parallel()
	conflict := fault.New(fault.Conflict, "agent_deleting", "No.")
	cause := errors.New("why")
	for name, c := range map[string]struct {
		err  error
		kind fault.Kind
		code string
	}{
		"a fault": {err: conflict, kind: fault.Conflict, code: "agent_deleting"},
		"a wrapped fault": {err: fmt.Errorf("while: %w", conflict.WithCause(cause)), kind: fault.Conflict,
			code: "agent_deleting"},
		"a deadline": {err: fmt.Errorf("call: %w", context.DeadlineExceeded), kind: fault.Unavailable,
			code: "timeout"},
		"anything else": {err: cause, kind: fault.Internal, code: "internal_error"},
	} {
		if e := fault.From(c.err); e.Kind != c.kind || e.Code != c.code {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if fault.From(nil) != nil {
		t.Error("no error became one")
	}
	if !errors.Is(conflict.WithCause(cause), cause) || errors.Is(conflict, cause) {
		t.Error("a cause belongs to the copy that was made with it")
	}
}

func TestAfter(t *testing.T) {
	t.Parallel()
	later := fault.New(fault.Unavailable, "c", "d")
	if later.After() != 5*time.Second {
		t.Errorf("without a time: %s", later.After())
	}
	later.RetryAfter = time.Minute
	if c := (&fault.Error{Kind: fault.Conflict, RetryAfter: time.Second}); c.After() != time.Second {
		t.Errorf("a conflict that passes: %s", c.After())
	}
	if later.After() != time.Minute || fault.New(fault.Conflict, "c", "d").After() != 0 {
		t.Error("the time to come back is wrong")
	}
}

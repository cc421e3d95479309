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
		fault.Internal: {500, true}, fault.BadRequest: {400, false}, fault.Unauthenticated: {401, false}, fault.PaymentRequired: {402, false},
		fault.Forbidden: {403, false}, fault.NotFound: {404, false}, fault.MethodNotAllowed: {405, false}, fault.Conflict: {409, false},
		fault.PreconditionFailed: {412, false}, fault.TooLarge: {413, false}, fault.UnsupportedMedia: {415, false}, fault.Invalid: {422, false},
		fault.RateLimited: {429, true}, fault.Unavailable: {503, true},
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
		"a fault":         {conflict, fault.Conflict, "agent_deleting"},
		"a wrapped fault": {fmt.Errorf("while: %w", conflict.WithCause(cause)), fault.Conflict, "agent_deleting"},
		"a deadline":      {fmt.Errorf("call: %w", context.DeadlineExceeded), fault.Unavailable, "timeout"},
		"anything else":   {cause, fault.Internal, "internal_error"},
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

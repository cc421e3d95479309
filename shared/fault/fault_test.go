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

func TestKind_HasStatusAndRetryRule(t *testing.T) {
	t.Parallel()
	for kind, want := range map[fault.Kind]struct {
		status    int
		retryable bool
	}{
		fault.Internal:           {status: 500, retryable: true},
		fault.BadRequest:         {status: 400, retryable: false},
		fault.Unauthenticated:    {status: 401, retryable: false},
		fault.PaymentRequired:    {status: 402, retryable: false},
		fault.Forbidden:          {status: 403, retryable: false},
		fault.NotFound:           {status: 404, retryable: false},
		fault.MethodNotAllowed:   {status: 405, retryable: false},
		fault.RequestTimeout:     {status: 408, retryable: true},
		fault.Conflict:           {status: 409, retryable: false},
		fault.PreconditionFailed: {status: 412, retryable: false},
		fault.TooLarge:           {status: 413, retryable: false},
		fault.UnsupportedMedia:   {status: 415, retryable: false},
		fault.Invalid:            {status: 422, retryable: false},
		fault.RateLimited:        {status: 429, retryable: true},
		fault.Unavailable:        {status: 503, retryable: true},
	} {
		if got := kind.Status(); got != want.status {
			t.Errorf("kind %d: Status = %d, want %d", kind, got, want.status)
		}
		if got := kind.Retryable(); got != want.retryable {
			t.Errorf("kind %d: Retryable = %t, want %t", kind, got, want.retryable)
		}
		if got := kind.Title(); got != http.StatusText(want.status) {
			t.Errorf("kind %d: Title = %q, want %q", kind, got, http.StatusText(want.status))
		}
	}
}

func TestFrom_ConvertsEveryError(t *testing.T) {
	t.Parallel()
	conflict := fault.New(fault.Conflict, "agent_deleting", "No.")
	unknown := errors.New("why")
	for name, c := range map[string]struct {
		err      error
		wantKind fault.Kind
		wantCode string
	}{
		"fault": {err: conflict, wantKind: fault.Conflict, wantCode: "agent_deleting"},
		"wrapped fault": {
			err:      fmt.Errorf("while: %w", conflict.WithCause(unknown)),
			wantKind: fault.Conflict, wantCode: "agent_deleting",
		},
		"expired context": {
			err:      fmt.Errorf("call: %w", context.DeadlineExceeded),
			wantKind: fault.Unavailable, wantCode: "timeout",
		},
		"unknown error": {err: unknown, wantKind: fault.Internal, wantCode: "internal_error"},
	} {
		got := fault.From(c.err)
		if got.Kind != c.wantKind {
			t.Errorf("%s: Kind = %d, want %d", name, got.Kind, c.wantKind)
		}
		if got.Code != c.wantCode {
			t.Errorf("%s: Code = %q, want %q", name, got.Code, c.wantCode)
		}
	}
	if got := fault.From(nil); got != nil {
		t.Errorf("From(nil) = %v, want nil", got)
	}
}

func TestError_WithCauseDoesNotChangeTheOriginal(t *testing.T) {
	t.Parallel()
	original, cause := fault.New(fault.Conflict, "agent_deleting", "No."), errors.New("why")
	if !errors.Is(original.WithCause(cause), cause) {
		t.Error("the copy does not wrap its cause")
	}
	if errors.Is(original, cause) {
		t.Error("the original wraps the cause of its copy")
	}
}

func TestError_After(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind       fault.Kind
		retryAfter time.Duration
		want       time.Duration
	}{
		"default of Unavailable":         {kind: fault.Unavailable, retryAfter: 0, want: 5 * time.Second},
		"explicit wait":                  {kind: fault.Unavailable, retryAfter: time.Minute, want: time.Minute},
		"Conflict is not retried":        {kind: fault.Conflict, retryAfter: 0, want: 0},
		"Conflict with an explicit wait": {kind: fault.Conflict, retryAfter: time.Second, want: time.Second},
	} {
		e := &fault.Error{Kind: c.kind, RetryAfter: c.retryAfter}
		if got := e.After(); got != c.want {
			t.Errorf("%s: After = %s, want %s", name, got, c.want)
		}
	}
}

package firestore

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/organization"
)

// sabotage makes one call fail, or all calls from one on.
type sabotage struct {
	code codes.Code
	// late lets the call do its work first and then loses the answer.
	late bool
	// forever fails all later calls, too, before they do anything.
	forever bool

	mu    sync.Mutex
	calls int
	at    int // the call that fails, from 1 on
}

// strike tells what becomes of the next call.
func (s *sabotage) strike() (before, after error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	err := status.Error(s.code, "sabotage")
	switch {
	case s.calls == s.at && s.late:
		return nil, err
	case s.calls == s.at, s.calls > s.at && s.forever:
		return err, nil
	default:
		return nil, nil
	}
}

func (s *sabotage) interceptors() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(
			ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
			opts ...grpc.CallOption,
		) error {
			before, after := s.strike()
			if before != nil {
				return before
			}
			if err := invoke(ctx, method, req, reply, cc, opts...); err != nil {
				return err
			}
			return after
		}),
		grpc.WithChainStreamInterceptor(func(
			ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer,
			opts ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			before, after := s.strike()
			if before != nil {
				return nil, before
			}
			stream, err := open(ctx, desc, cc, method, opts...)
			return broken{stream, after}, err
		}),
	}
}

// broken is a stream that ends with an error after it was opened.
type broken struct {
	grpc.ClientStream
	err error
}

func (b broken) RecvMsg(m any) error {
	if err := b.ClientStream.RecvMsg(m); err != nil || b.err == nil {
		return err
	}
	return b.err
}

// TestFaults fails every call of every operation, before and after it did its work, with every error that Firestore has
// for bad days. The answer is right or "unavailable", and everything was written or nothing.
func TestFaults(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	for name, op := range operations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everyFailure(func(s *sabotage) bool { return hit(t, c, op, s) },
				codes.Unavailable, codes.DeadlineExceeded, codes.Aborted, codes.ResourceExhausted, codes.Internal)
		})
	}
}

// everyFailure runs an operation with each of its calls failing with each of the codes, before and after it was carried
// out, and with each answer lost for ever. run is false when the operation makes fewer calls.
func everyFailure(run func(*sabotage) bool, failures ...codes.Code) {
	for _, code := range failures {
		for _, late := range []bool{false, true} {
			for at := 1; run(&sabotage{code: code, late: late, at: at}); at++ {
			}
		}
	}
	for at := 1; run(&sabotage{code: codes.Unavailable, late: true, forever: true, at: at}); at++ {
	}
}

// options are a client's whose calls the sabotage sees, and label says in a failing test what went wrong.
func (s *sabotage) options() (o Options, label string) {
	o.DialOptions = s.interceptors()
	if s.forever {
		o.Timeout = 400 * time.Millisecond // it will not get better
	}
	return o, fmt.Sprintf("call %d fails with %s (late %t, forever %t)", s.at, s.code, s.late, s.forever)
}

// hit runs an operation under sabotage and checks what it left. It is false when the operation makes fewer calls.
func hit(t *testing.T, c *Client, op operation, s *sabotage) bool {
	t.Helper()
	o, label := s.options()
	scene := newScene(t, c)
	before := len(scene.org.Entries())
	err := op.do(open(t, c.project(), o), scene)
	done := op.done(t, scene)
	switch {
	case err == nil && done != 1:
		t.Errorf("%s: done %d times, and the answer is a success", label, done)
	case err != nil && done != 0 && done != 1:
		t.Errorf("%s: done %d times", label, done)
	case err != nil && !fault.Is(err, fault.Unavailable) &&
		(s.code != codes.Internal || !fault.Is(err, fault.Internal)):
		t.Errorf("%s: %v, want unavailable", label, err)
	case err != nil && !s.forever && done == 1:
		t.Errorf("%s: an answer that was lost once is not found again: %v", label, err)
	}
	entries := len(scene.org.Entries()) - before
	if want := done; !op.silent && entries != want || op.silent && entries != 0 {
		t.Errorf("%s: %d audit entries of an operation done %d times", label, entries, done)
	}
	var want organization.Usage
	for _, a := range agentsOf(t, scene) {
		want = want.Plus(heldUsage(a))
	}
	want.APIKeys = int64(len(keysOf(t, scene)))
	if got := scene.org.Usage(); got != want {
		t.Errorf("%s: usage %+v, want %+v", label, got, want)
	}
	return s.calls >= s.at
}

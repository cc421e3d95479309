package firestore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/ratelimit"
	"agents.example/controlplane/shared/testtier"
)

// maxRetries is how often an operation may repeat a call that fails permanently. The operation's own limit is a time.
const maxRetries = 4

// injectedFault makes one of a client's calls fail, or all calls from one on.
type injectedFault struct {
	// call is the call that fails, from 1 on.
	call int
	code codes.Code
	// loseAnswer carries the call out and loses its answer. Otherwise the call fails before it does anything.
	loseAnswer bool
	// permanent also fails all later calls, before they do anything. After maxRetries, they are canceled.
	permanent bool

	mu    sync.Mutex
	calls int
}

// String describes the fault in failure messages.
func (f *injectedFault) String() string {
	what := "fails with"
	if f.loseAnswer {
		what = "is carried out and answers"
	}
	if f.permanent {
		return fmt.Sprintf("call %d %s %s, later calls fail", f.call, what, f.code)
	}
	return fmt.Sprintf("call %d %s %s", f.call, what, f.code)
}

// nextCall counts a call and returns the errors to return before it and after it.
func (f *injectedFault) nextCall() (before, after error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	err := status.Error(f.code, "injected fault")
	switch {
	case f.calls == f.call && f.loseAnswer:
		return nil, err
	case f.permanent && f.calls > f.call+maxRetries:
		return status.Error(codes.Canceled, "injected end of the caller's patience"), nil
	case f.calls == f.call, f.calls > f.call && f.permanent:
		return err, nil
	default:
		return nil, nil
	}
}

// reached reports whether the client made the call that fails.
func (f *injectedFault) reached() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls >= f.call
}

// options are those of a client with the fault.
func (f *injectedFault) options() Options {
	// The limit refuses a creation that counts twice.
	return Options{DialOptions: f.interceptors(), Creations: ratelimit.Limit{Quota: 1, Window: time.Hour}}
}

func (f *injectedFault) interceptors() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(
			ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
			opts ...grpc.CallOption,
		) error {
			before, after := f.nextCall()
			if before != nil {
				return before
			}
			if err := invoke(ctx, method, req, reply, cc, opts...); err != nil {
				return err
			}
			return after
		}),
		aroundStreams(func(_ string, open openStream) (grpc.ClientStream, error) {
			before, after := f.nextCall()
			if before != nil {
				return nil, before
			}
			stream, err := open()
			return streamWithError{stream, after}, err
		}),
	}
}

// aroundCommits runs a function in place of each commit of a client.
func aroundCommits(around func(commit func() error) error) grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(
		ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		call := func() error { return invoke(ctx, method, req, reply, cc, opts...) }
		if strings.HasSuffix(method, "/Commit") {
			return around(call)
		}
		return call()
	})
}

// openStream sends a read, a query or the targets of a listener.
type openStream func() (grpc.ClientStream, error)

// aroundStreams runs a function in place of each call of a client whose answer is a stream.
func aroundStreams(around func(method string, open openStream) (grpc.ClientStream, error)) grpc.DialOption {
	return grpc.WithChainStreamInterceptor(func(
		ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer,
		opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		return around(method, func() (grpc.ClientStream, error) { return open(ctx, desc, cc, method, opts...) })
	})
}

// streamWithError returns an error in place of each received message.
type streamWithError struct {
	grpc.ClientStream
	err error
}

func (s streamWithError) RecvMsg(m any) error {
	if err := s.ClientStream.RecvMsg(m); err != nil || s.err == nil {
		return err
	}
	return s.err
}

// forEachFault calls test with every fault of an operation: each of its calls fails with each of the codes, before and
// after it is carried out, and each answer is lost with all later calls failing. test returns false when the operation
// makes fewer calls.
func forEachFault(test func(*injectedFault) (reached bool), failures ...codes.Code) {
	for _, code := range failures {
		for _, loseAnswer := range []bool{false, true} {
			for call := 1; test(&injectedFault{call: call, code: code, loseAnswer: loseAnswer}); call++ {
			}
		}
	}
	for call := 1; test(&injectedFault{
		call: call, code: codes.Unavailable, loseAnswer: true,
		permanent: true,
	}); call++ {
	}
}

// temporaryErrors are errors of Firestore with which a test makes an operation fail: all of them in the full tier, and
// one of each kind that the code distinguishes in the others.
func temporaryErrors(t *testing.T, operation string) []codes.Code {
	t.Helper()
	all := []codes.Code{
		codes.Unavailable, codes.Aborted, codes.Internal,
		codes.DeadlineExceeded, codes.ResourceExhausted, codes.Canceled,
	}
	if operation == "change an agent" { // represents the others
		return all
	}
	return all[:testtier.Count(t, 3, 3, len(all))]
}

// TestOperations_AreAtomicUnderFaults fails every call of every operation with temporary errors of Firestore. The
// operation must be carried out once or not at all, and answer accordingly or with Unavailable.
func TestOperations_AreAtomicUnderFaults(t *testing.T) {
	t.Parallel()
	for name, op := range operations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := open(t, "", Options{}) // queries read a collection of all tenants
			forEachFault(func(f *injectedFault) bool { return checkOperationWithFault(t, c, op, f) },
				temporaryErrors(t, name)...)
		})
	}
}

// checkOperationWithFault runs an operation on a new tenant with the fault, and checks its answer and what it wrote.
func checkOperationWithFault(t *testing.T, c *Client, op operation, f *injectedFault) (reached bool) {
	t.Helper()
	tenant := newTenantFixture(t, c)
	entriesBefore := len(tenant.org.Entries())
	err := op.run(open(t, c.project(), f.options()), tenant)
	done := op.timesDone(t, tenant)

	if done != 0 && done != 1 {
		t.Errorf("%s: done %d times, want at most once", f, done)
	}
	if err == nil && done != 1 {
		t.Errorf("%s: done %d times and answered with success", f, done)
	}
	if err != nil && !isTemporary(err, f) {
		t.Errorf("%s: error %v, want Unavailable", f, err)
	}
	if err != nil && done == 1 && !f.permanent {
		t.Errorf("%s: the operation was done, but answered with %v", f, err)
	}

	wantEntries := done
	if op.unaudited {
		wantEntries = 0
	}
	if got := len(tenant.org.Entries()) - entriesBefore; got != wantEntries {
		t.Errorf("%s: %d audit entries of an operation done %d times, want %d", f, got, done, wantEntries)
	}
	if got, want := tenant.org.Usage(), tenant.heldUsage(t); got != want {
		t.Errorf("%s: recorded usage %+v, want %+v", f, got, want)
	}
	return f.reached()
}

// isTemporary reports whether an error is one that clients may get because of the fault.
func isTemporary(err error, f *injectedFault) bool {
	return fault.Is(err, fault.Unavailable) || f.code == codes.Internal && fault.Is(err, fault.Internal)
}

// heldUsage adds up the tenant's agents and keys.
func (x tenantFixture) heldUsage(t *testing.T) organization.Usage {
	t.Helper()
	var sum organization.Usage
	for _, a := range x.listAgents(t) {
		sum = sum.Plus(a.HeldUsage())
	}
	sum.APIKeys = int64(len(x.listKeys(t)))
	return sum
}

package function

import (
	"context"
	"net/http"
	"sync"
	"time"

	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
)

// recheckInterval is how often the caller of an answer that stays open is identified again. What was read about a
// session may be organization.EndsKnown old, so an answer ends within 25 seconds of its caller's rights.
const recheckInterval = 15 * time.Second

// whileAdmitted returns a context that ends when the caller would no longer be admitted: the key is revoked or has
// expired, the session is over, or the role was taken away. Its cause is the refusal. An outage ends no answer.
//
// It is for reads, which wait and follow, and for commands that may take minutes. A change that was admitted is carried
// out.
func (g Guard) whileAdmitted(ctx context.Context, r Route, req *http.Request) (context.Context, func()) {
	if r.Mutates() && r.Holds == 0 || !r.Access.Authenticates() {
		return ctx, func() {}
	}
	ctx, end := context.WithCancelCause(ctx)
	a := &admission{guard: g, access: r.Access, request: req.WithContext(ctx), end: end}
	a.arm()
	return ctx, a.stop
}

// admission is the right to an answer that is open.
type admission struct {
	guard   Guard
	access  Access
	request *http.Request
	end     context.CancelCauseFunc

	mu    sync.Mutex
	timer *time.Timer
}

// arm starts the wait for the next check, unless the answer is complete.
func (a *admission) arm() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.request.Context().Err() == nil {
		a.timer = time.AfterFunc(recheckInterval, a.check)
	}
}

// stop ends the checks with the answer.
func (a *admission) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer.Stop()
	a.end(nil)
}

// check ends the answer if its caller is no longer admitted.
func (a *admission) check() {
	caller, _, err := a.guard.authenticate(call.From(a.request.Context()).Request, Route{}, a.request)
	if err == nil {
		err = a.access.check(caller)
	}
	if refusesCaller(err) {
		a.end(err)
		return
	}
	a.arm()
}

// refusesCaller reports whether an error means that the caller has no right to the answer. Others may pass.
func refusesCaller(err error) bool {
	return fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.Forbidden)
}

package function

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"time"

	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/clientip"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
)

// recheckInterval is how often the caller of an answer that stays open is identified again. What was read about a
// session may be organization.EndsKnown old, so an answer ends within 25 seconds of its caller's rights.
const recheckInterval = 15 * time.Second

// openAnswers are the answers of a route that stay open, such as streams. Those with one token share their checks, so
// that a caller with a thousand of them costs one look-up in each interval.
type openAnswers struct {
	guard  Guard
	access Access

	mu      sync.Mutex
	byToken map[string]*admission
}

// admission is the right of a caller to the answers that are open.
type admission struct {
	ctx     context.Context
	attempt identity.Attempt
	ends    map[context.Context]context.CancelCauseFunc
	timer   *time.Timer
}

// newOpenAnswers returns the open answers of a route, none yet, or nil for a route whose answers its caller's rights do
// not end.
//
// They end reads, which wait and follow, and commands that may take minutes. A change that was admitted is carried out.
func newOpenAnswers(g Guard, r *Route) *openAnswers {
	if r.Mutates() && r.Holds == 0 || !r.Access.Authenticates() {
		return nil
	}
	return &openAnswers{guard: g, access: r.Access, byToken: map[string]*admission{}}
}

// add returns a context that ends when the caller would no longer be admitted: the key is revoked or has expired, the
// session is over, or the role was taken away. Its cause is the refusal. An outage ends no answer. The function ends
// the checks with the answer.
func (o *openAnswers) add(ctx context.Context, req *http.Request) (context.Context, func()) {
	if o == nil {
		return ctx, func() {}
	}
	token, err := bearerToken(req.Header)
	if err != nil {
		return ctx, func() {} // it was admitted without a token
	}
	ctx, end := context.WithCancelCause(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	a := o.byToken[token]
	if a == nil {
		a = &admission{
			ctx:     context.WithoutCancel(ctx),
			attempt: identity.Attempt{Token: token, Address: clientip.Bucket(call.From(ctx).Request.IP)},
			ends:    map[context.Context]context.CancelCauseFunc{},
		}
		o.byToken[token] = a
		o.arm(a)
	}
	a.ends[ctx] = end
	return ctx, func() {
		end(nil)
		o.remove(ctx, a)
	}
}

// arm starts the wait for the next check.
func (o *openAnswers) arm(a *admission) {
	a.timer = time.AfterFunc(recheckInterval, func() { o.check(a) })
}

// remove forgets an answer, and with the last one its caller.
func (o *openAnswers) remove(answer context.Context, a *admission) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(a.ends, answer)
	if len(a.ends) == 0 {
		a.timer.Stop()
		delete(o.byToken, a.attempt.Token)
	}
}

// check ends the answers of a caller who is no longer admitted. Those that opened during the check were admitted later
// than what it found, and stay.
func (o *openAnswers) check(a *admission) {
	o.mu.Lock()
	checked := maps.Clone(a.ends)
	o.mu.Unlock()
	caller, _, err := o.guard.Authenticator.Authenticate(a.ctx, a.attempt)
	if err == nil {
		err = o.access.check(caller)
	}
	if refusesCaller(err) {
		for _, end := range checked {
			end(err)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(a.ends) > 0 {
		o.arm(a)
	}
}

// refusesCaller reports whether an error means that the caller has no right to the answer. Others may pass.
func refusesCaller(err error) bool {
	return fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.Forbidden)
}

package function

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/clientip"
)

// A request to a route passes these steps, in this order. If a step fails, the request continues at step 11.
//
//	 1. request id, trace span      instrument; runRecovering turns a panic in any later step into an error
//	 2. headers of every response   setSecurityHeaders, Deprecation.setHeaders, forbidCaching
//	 3. authentication              Guard.admit: Guard.authenticate
//	 4. access                      Guard.admit: Route.check
//	 5. rate limits                 Guard.admit: Guard.countCall
//	 6. plan feature                Guard.admit: Guard.checkFeature; 3 and 4 are repeated while a long answer is open
//	 7. idempotency key             Route.setAttempt
//	 8. body                        Route.decode: Route.decodeBody
//	 9. validation                  Route.decode: relax, inputSchema.violations
//	10. handler                     Guard.answer: Endpoint.call, its rehearsal, or the kept answer of a repeated call
//	11. audit entry                 Guard.withAuditEntry, unless the handler's change already wrote it
//	12. response                    Route.render, or WriteError for an error; its first byte waits (call.Answer)
//	13. log line                    callLine.log, within Guard.Lines

// Handler returns the HTTP handler of the route.
func (r Route) Handler(g Guard) http.Handler {
	decode := r.decode
	if !r.Access.Authenticates() {
		decode = r.limitReceiving()
	}
	open := newOpenAnswers(g, &r)
	return instrument(r.Name, g.Lines, func(w http.ResponseWriter, req *http.Request) (context.Context, error) {
		r.takeTokenOfWebSocket(req)
		r.Deprecated.setHeaders(w.Header())
		if r.Access != Public {
			forbidCaching(w.Header())
		}
		ctx := req.Context()
		c := call.From(ctx)
		settle, refusal := g.admit(c, &r, w, req)
		if refusal == nil {
			var stop func()
			ctx, stop = open.add(ctx, req)
			defer stop()
		}
		out, err := g.withAuditEntry(c, &r, req, func() (any, error) {
			if refusal != nil {
				return nil, refusal
			}
			if err := r.setAttempt(c, w, req); err != nil {
				return nil, err
			}
			input, err := decode(w, req)
			if err != nil {
				return nil, err
			}
			out, err := g.answer(ctx, &r, req, input)
			if ended := context.Cause(ctx); refusesCaller(ended) {
				err = ended // what the handler has is no longer for this caller
			}
			if settle != nil {
				settle(w.Header(), err)
			}
			showRefusal(w.Header(), err)
			if c.Attempt.Replayed() && !c.Attempt.DiscardsAnswer() {
				c.Entry.MarkReplayed()
			}
			if _, upgrades := out.(Upgrade); err == nil && r.Audited && !upgrades {
				err = r.render(w, req, out) // the entry has what became of the answer
				showRefusal(w.Header(), err)
				return rendered{}, err
			}
			return out, err
		})
		if err != nil {
			r.challenge(w.Header(), err)
			return ctx, err
		}
		if _, done := out.(rendered); done {
			return ctx, nil
		}
		setReplayed(c, w.Header())
		return ctx, r.render(w, req.WithContext(ctx), out)
	})
}

// rendered is the output of a call whose answer is complete.
type rendered struct{}

// answer runs the handler, or rehearses it.
func (g Guard) answer(ctx context.Context, r *Route, req *http.Request, input []byte) (any, error) {
	if r.rehearsed(req) {
		return r.rehearse(ctx, input)
	}
	return g.callHandler(ctx, r, input)
}

// handler writes the response, or returns the error to render. The returned context has the span of the call's log
// line.
type handler func(w http.ResponseWriter, req *http.Request) (context.Context, error)

// instrument wraps the handler of a route or worker with a request id, a trace span, recovery from panics, the
// rendering of errors and the log line.
func instrument(name string, budget *LineBudget, handle handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		began := time.Now()
		facts := audit.Request{
			Action: name, RequestID: requestID(req.Header), IP: clientip.Of(req), UserAgent: req.UserAgent(),
		}.Printable()
		answer := &call.Answer{}
		req, span := startSpan(req.WithContext(call.With(req.Context(), &call.Call{Request: facts, Answer: answer})),
			name)
		w.Header().Set("X-Request-Id", facts.RequestID)
		setSecurityHeaders(w.Header(), req)
		rec := &statusRecorder{ResponseWriter: w, before: answer.Wait}
		ctx, err := runRecovering(rec, req, handle)
		if err != nil && rec.status == 0 {
			WriteError(rec, facts.RequestID, err)
		}
		callLine{function: name, budget: budget, request: req, writer: rec, began: began, err: err}.log(ctx)
		endSpan(span, facts, rec.status)
	})
}

// runRecovering runs the handler and turns a panic into an error. The error holds only the type and the stack of the
// panic, because its value may contain a secret.
func runRecovering(w http.ResponseWriter, req *http.Request, handle handler) (ctx context.Context, err error) {
	defer func() {
		if p := recover(); p != nil {
			ctx, err = req.Context(), fmt.Errorf("panic of type %T\n%s", p, debug.Stack())
		}
	}()
	return handle(w, req)
}

// requestID returns the client's request id if it is short and safe to log, and a new one otherwise.
func requestID(h http.Header) string {
	id := h.Get("X-Request-Id")
	sane := len(id) > 0 && len(id) <= 128
	for _, c := range id {
		sane = sane && (c == '-' || c == '_' || c == '.' ||
			c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z')
	}
	if sane {
		return id
	}
	return uuid.NewString()
}

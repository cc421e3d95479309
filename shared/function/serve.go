package function

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/identity"
)

// Handler serves the route.
func (r Route) Handler(g Guard) http.Handler {
	return observed(r.Name, func(w http.ResponseWriter, req *http.Request) (context.Context, error) {
		r.Deprecated.announce(w.Header())
		ctx, refusal := g.admit(r, w, req)
		out, err := g.audited(ctx, r, req, func(call context.Context) (_ any, err error) {
			if refusal != nil {
				return nil, refusal
			}
			if ctx, err = r.attempt(call, w, req); err != nil {
				return nil, err
			}
			input, err := r.decode(w, req)
			if err != nil {
				return nil, err
			}
			return r.Handle.call(ctx, input)
		})
		if err != nil {
			return ctx, err
		}
		if !replayed(ctx, w.Header()) {
			g.succeeded(r, identity.From(ctx), req)
		}
		return ctx, r.render(w, req, out)
	})
}

// handler answers a call or returns the error to render. The returned context is what is known of the call by then, for
// its log line.
type handler func(w http.ResponseWriter, req *http.Request) (context.Context, error)

// observed wraps a handler with what every function has: a request id, the facts of the call, a guard against panics,
// the rendering of errors and the one log line.
func observed(name string, handle handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		began := time.Now()
		facts := audit.Request{Action: name, RequestID: requestID(req.Header), IP: remoteIP(req),
			UserAgent: req.UserAgent()}
		req, span := begin(req.WithContext(audit.With(req.Context(), facts)), name)
		w.Header().Set("X-Request-Id", facts.RequestID)
		rec := &recorder{ResponseWriter: w}
		ctx, err := guarded(rec, req, handle)
		if err != nil && rec.status == 0 {
			WriteError(rec, facts.RequestID, err)
		}
		call{function: name, request: req, writer: rec, began: began, err: err}.log(ctx)
		end(span, facts, rec.status)
	})
}

// guarded turns a panic into an error. The panic's value may hold anything, so only its type and the stack are kept.
func guarded(w http.ResponseWriter, req *http.Request, handle handler) (ctx context.Context, err error) {
	defer func() {
		if p := recover(); p != nil {
			ctx, err = req.Context(), fmt.Errorf("panic of type %T\n%s", p, debug.Stack())
		}
	}()
	return handle(w, req)
}

// requestID keeps a sane id of the client and makes one otherwise.
func requestID(h http.Header) string {
	id := h.Get("X-Request-Id")
	sane := len(id) > 0 && len(id) <= 128
	for _, c := range id {
		sane = sane && (c == '-' || c == '_' || c == '.' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' &&
			c <= 'z')
	}
	if sane {
		return id
	}
	return uuid.NewString()
}

// remoteIP is the client's address: the last one that the platform's own proxy appended.
func remoteIP(req *http.Request) string {
	if chain := req.Header.Get("X-Forwarded-For"); chain != "" {
		hops := strings.Split(chain, ",")
		return strings.TrimSpace(hops[len(hops)-1])
	}
	host, _, err := net.SplitHostPort(req.RemoteAddr)
	if err != nil {
		return req.RemoteAddr
	}
	return host
}

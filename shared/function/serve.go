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
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
)

// Authenticator tells who a bearer token belongs to.
type Authenticator interface {
	// Authenticate verifies a token and, where the caller's key is read anyway, fetches the document named by reads in the same round
	// trip; the returned context carries it. Errors: Unauthenticated, Unavailable.
	Authenticate(ctx context.Context, token string, reads document.Ref) (context.Context, identity.Caller, error)
}

// Handler serves the route.
func (r Route) Handler(auth Authenticator) http.Handler {
	return observed(r.Name, func(w http.ResponseWriter, req *http.Request) (context.Context, error) {
		ctx, err := r.admit(req, auth)
		if err != nil {
			return ctx, err
		}
		input, err := r.decode(w, req)
		if err != nil {
			return ctx, err
		}
		out, err := r.Handle.call(ctx, input)
		if err != nil {
			return ctx, err
		}
		return ctx, r.render(w, out)
	})
}

// handler answers a call or returns the error to render. The returned context is what is known of the call by then, for its log line.
type handler func(w http.ResponseWriter, req *http.Request) (context.Context, error)

// admit decides who is let in, before the body is read and before the existence of anything is revealed.
func (r Route) admit(req *http.Request, auth Authenticator) (context.Context, error) {
	ctx := req.Context()
	if r.Access == Public {
		return ctx, nil
	}
	token, err := bearer(req.Header)
	if err != nil {
		return ctx, err
	}
	var reads document.Ref
	if r.Reads != nil {
		reads = r.Reads(req.PathValue)
	}
	fetched, caller, err := auth.Authenticate(ctx, token, reads)
	if err != nil {
		return ctx, err
	}
	return identity.With(fetched, caller), r.Access.check(caller)
}

// check decides whether a caller may use a route. The error is Forbidden.
func (a Access) check(c identity.Caller) error {
	switch {
	case a == User:
		return nil
	case c.OrganizationID == "":
		return fault.New(fault.Forbidden, "organization_required",
			"The session has no active organization. Choose one and use the token that the identity provider issues then.")
	case a == Admin && !c.Admin():
		return fault.New(fault.Forbidden, "role_required", "This needs the role org:admin. Members are read-only.")
	default:
		return nil
	}
}

func bearer(h http.Header) (string, error) {
	value := h.Get("Authorization")
	if value == "" {
		return "", fault.New(fault.Unauthenticated, "missing_token", "Send a bearer token: Authorization: Bearer <token>.")
	}
	scheme, token, _ := strings.Cut(value, " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" || strings.ContainsAny(token, " \t,") {
		return "", identity.InvalidToken()
	}
	return token, nil
}

// observed wraps a handler with what every function has: a request id, the facts of the call, a guard against panics, the rendering
// of errors and the one log line.
func observed(name string, handle handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		began := time.Now()
		facts := audit.Request{Action: name, RequestID: requestID(req.Header), IP: remoteIP(req), UserAgent: req.UserAgent()}
		req = req.WithContext(audit.With(withTrace(req.Context(), req.Header), facts))
		w.Header().Set("X-Request-Id", facts.RequestID)
		rec := &recorder{ResponseWriter: w}
		ctx, err := guarded(rec, req, handle)
		if err != nil && rec.status == 0 {
			WriteError(rec, facts.RequestID, err)
		}
		call{function: name, request: req, writer: rec, began: began, err: err}.log(ctx)
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
		sane = sane && (c == '-' || c == '_' || c == '.' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z')
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

package function_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
)

// changingAuthenticator knows one caller, and counts how often it is asked.
type changingAuthenticator struct {
	mu     sync.Mutex
	caller identity.Caller
	err    error
	asked  int
}

func (a *changingAuthenticator) Authenticate(
	context.Context, identity.Attempt,
) (identity.Caller, *document.Fetched, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	return a.caller, nil, a.err
}

func (a *changingAuthenticator) set(caller identity.Caller, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.caller, a.err = caller, err
}

func (a *changingAuthenticator) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

// TestHandler_AnAnswerEndsWithTheRightsOfItsCaller changes what is known of a caller while a read is open for two
// minutes.
func TestHandler_AnAnswerEndsWithTheRightsOfItsCaller(t *testing.T) {
	t.Parallel()
	admin := identity.Caller{ID: "u1", OrganizationID: "o1", Role: identity.RoleAdmin}
	member := admin
	member.Role = identity.RoleMember
	const whole = 2*time.Minute + 5*time.Second
	refused := identity.InvalidToken()
	down := fault.New(fault.Unavailable, "store_unavailable", "Down.")
	for name, c := range map[string]struct {
		method     string
		streams    bool // the answer begins with the wait
		caller     identity.Caller
		err        error
		wantStatus int
		wantAfter  time.Duration // the latest end; exactly whole if it is that
	}{
		"revoked, stream":    {streams: true, err: refused, wantStatus: 200, wantAfter: 30 * time.Second},
		"revoked, wait":      {err: refused, wantStatus: 401, wantAfter: 30 * time.Second},
		"demoted, stream":    {streams: true, caller: member, wantStatus: 200, wantAfter: 30 * time.Second},
		"demoted, wait":      {caller: member, wantStatus: 403, wantAfter: 30 * time.Second},
		"still admin":        {caller: admin, wantStatus: 200, wantAfter: whole},
		"outage":             {err: down, wantStatus: 200, wantAfter: whole},
		"revoked, a change":  {method: http.MethodPost, err: refused, wantStatus: 200, wantAfter: whole},
		"revoked, a rewrite": {method: http.MethodPut, caller: member, wantStatus: 200, wantAfter: whole},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				known := &changingAuthenticator{caller: admin}
				wait := func(ctx context.Context) {
					select {
					case <-time.After(whole):
					case <-ctx.Done():
					}
				}
				method := http.MethodGet
				if c.method != "" {
					method = c.method
				}
				g := function.Guard{Authenticator: known}
				h := g.Mux([]function.Served{function.Route{
					Name: "Test", Method: method, Path: "/test", Access: function.Admin, Status: http.StatusOK,
					Handle: function.Handle(func(ctx context.Context, _ function.Empty) (streamed, error) {
						if !c.streams {
							wait(ctx)
						}
						return func(w io.Writer) error {
							if c.streams {
								_ = function.Flush(w)
								wait(ctx)
							}
							return nil
						}, nil
					}),
				}.Served(g)})
				began, res := time.Now(), httptest.NewRecorder()
				time.AfterFunc(time.Second, func() { known.set(c.caller, c.err) })
				h.ServeHTTP(res, newRequest(method, "/test", "token", ""))
				took := time.Since(began)
				if res.Code != c.wantStatus || took > c.wantAfter || c.wantAfter == whole && took != whole {
					t.Errorf("status %d after %s, want %d after %s", res.Code, took, c.wantStatus, c.wantAfter)
				}
				asked := known.count()
				<-time.After(whole)
				if got := known.count(); got != asked {
					t.Error("the caller of a complete answer is identified again")
				}
			})
		})
	}
}

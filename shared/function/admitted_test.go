package function_test

import (
	"context"
	"io"
	"maps"
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

// tokenAuthenticator counts look-ups by token. A token is valid unless refused has it; delay is how long the answer to
// a look-up is under way.
type tokenAuthenticator struct {
	mu      sync.Mutex
	asked   map[string]int
	refused map[string]bool
	delay   time.Duration
}

func (a *tokenAuthenticator) Authenticate(
	_ context.Context, t identity.Attempt,
) (identity.Caller, *document.Fetched, error) {
	a.mu.Lock()
	a.asked[t.Token]++
	refused, delay := a.refused[t.Token], a.delay
	a.mu.Unlock()
	<-time.After(delay)
	if refused {
		return identity.Caller{}, nil, identity.InvalidToken()
	}
	return identity.Caller{ID: t.Token, OrganizationID: "o1", Role: identity.RoleAdmin}, nil, nil
}

func (a *tokenAuthenticator) set(refused string, delay time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused, a.delay = map[string]bool{refused: true}, delay
}

// lookups returns how often each token was looked up.
func (a *tokenAuthenticator) lookups() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.asked)
}

// openAnswer serves a request of a token to h, whose answer ends with its context only. The channel gets its status.
func openAnswer(ctx context.Context, h http.Handler, token string) <-chan int {
	ended := make(chan int, 1)
	go func() {
		res := httptest.NewRecorder()
		h.ServeHTTP(res, newRequest(http.MethodGet, "/test", token, "").WithContext(ctx))
		ended <- res.Code
	}()
	return ended
}

func openHandler(known function.Authenticator) http.Handler {
	g := function.Guard{Authenticator: known}
	return g.Mux([]function.Served{function.Route{
		Name: "Test", Method: http.MethodGet, Path: "/test", Access: function.User, Status: http.StatusOK,
		Handle: function.Handle(func(ctx context.Context, _ function.Empty) (function.Empty, error) {
			<-ctx.Done()
			return function.Empty{}, nil
		}),
	}.Served(g)})
}

// TestHandler_AnswersOfOneCallerShareTheirChecks holds four answers of one caller and one of another.
func TestHandler_AnswersOfOneCallerShareTheirChecks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		known := &tokenAuthenticator{asked: map[string]int{}}
		h := openHandler(known)
		first := []<-chan int{}
		for range 4 {
			first = append(first, openAnswer(t.Context(), h, "one"))
			<-time.After(time.Second)
		}
		ctx, leave := context.WithCancel(t.Context())
		other := openAnswer(ctx, h, "other")
		<-time.After(35 * time.Second)
		if got, want := known.lookups(), map[string]int{"one": 4 + 2, "other": 1 + 2}; !maps.Equal(got, want) {
			t.Errorf("look-ups %v in two intervals, want %v", got, want)
		}
		known.set("one", 0)
		for _, ended := range first {
			if got := <-ended; got != http.StatusUnauthorized {
				t.Errorf("an answer of the revoked key ended with %d, want 401", got)
			}
		}
		select {
		case got := <-other:
			t.Errorf("the answer of the other key ended with %d", got)
		default:
		}
		leave()
		<-other
	})
}

// TestHandler_AnAnswerOutlivesACheckThatBeganBeforeIt opens an answer while a check of its token runs, which finds what
// was true before.
func TestHandler_AnAnswerOutlivesACheckThatBeganBeforeIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		known := &tokenAuthenticator{asked: map[string]int{}}
		h := openHandler(known)
		before := openAnswer(t.Context(), h, "one")
		<-time.After(time.Second)
		known.set("one", 30*time.Second)
		<-time.After(15 * time.Second) // the check has begun
		known.set("", 0)
		ctx, leave := context.WithCancel(t.Context())
		during := openAnswer(ctx, h, "one")
		if got := <-before; got != http.StatusUnauthorized {
			t.Errorf("the answer that was open before the check ended with %d, want 401", got)
		}
		<-time.After(64 * time.Second)
		select {
		case got := <-during:
			t.Errorf("the answer that opened during the check ended with %d", got)
		default:
		}
		asked := known.lookups()["one"]
		leave()
		<-during
		<-time.After(time.Minute)
		if got := known.lookups()["one"]; got != asked || asked < 5 {
			t.Errorf("%d look-ups with the answer, %d after it; want some, and no more", asked, got)
		}
	})
}

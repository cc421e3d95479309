package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/oauth2"

	"agents.example/controlplane/functions/agentctl/profile"
	"agents.example/controlplane/shared/client"
)

// renewEarly is how long before its end a token is renewed, so that it is still valid when the API reads it.
const renewEarly = 10 * time.Second

// errNoAnswer is the cause of a renewal that requestTimeout has ended.
var errNoAnswer = fmt.Errorf("the identity provider did not answer within %s", requestTimeout)

// ErrSessionEnded is the error of a session that cannot be renewed.
var ErrSessionEnded = errors.New("your session has ended. Run: agentctl login")

// ErrProfileChanged is the error of a command whose profile got another API, user or organization while it ran.
var ErrProfileChanged = errors.New("the profile was changed while the command ran. Run the command again")

// Tokens returns the tokens for calls of the API: the key, or those of the session, which it renews. It returns
// profile.ErrNotLoggedIn if there is neither.
func Tokens(store profile.Store, r profile.Resolved, h *http.Client) (client.TokenSource, error) {
	switch {
	case r.Key != "":
		return client.StaticToken(r.Key.Reveal()), nil
	case r.Session != nil:
		return &sessionTokens{
			store: store, from: r, http: withoutRedirects(h), now: time.Now, turn: make(chan struct{}, 1),
			current: *r.Session,
		}, nil
	}
	return nil, profile.ErrNotLoggedIn
}

// sessionTokens returns the tokens of a session. Identity providers replace a refresh token with each use, and take a
// second use for a theft that ends the session. So only one goroutine of one process renews it at a time, and stores
// the successor before another can read it.
type sessionTokens struct {
	store profile.Store
	// from is the profile as it was when the command began.
	from profile.Resolved
	http *http.Client
	now  func() time.Time
	// turn is full while a goroutine reads or renews. It guards current.
	turn    chan struct{}
	current profile.Session
}

// Token implements client.TokenSource.
func (t *sessionTokens) Token(ctx context.Context) (string, error) {
	unlock, err := t.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if !t.isFresh(t.current) {
		if err := t.renew(ctx, t.current.Access); err != nil {
			return "", err
		}
	}
	return t.current.Access.Reveal(), nil
}

// Refresh replaces a token that the API refused.
func (t *sessionTokens) Refresh(ctx context.Context, refused string) error {
	unlock, err := t.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if t.current.Access.Reveal() != refused && t.isFresh(t.current) {
		return nil
	}
	return t.renew(ctx, profile.Secret(refused))
}

func (t *sessionTokens) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case t.turn <- struct{}{}:
		return func() { <-t.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (t *sessionTokens) isFresh(s profile.Session) bool {
	return s.Access != "" && t.now().Add(renewEarly).Before(s.Expires)
}

// renew replaces a token that is not valid anymore: with the stored one, if another process has renewed it, and with
// one of the identity provider otherwise.
func (t *sessionTokens) renew(ctx context.Context, old profile.Secret) error {
	var failed error
	err := t.store.Update(ctx, func(f *profile.File) error {
		p := f.Profiles[t.from.Name]
		if p.Session == nil && p.Key == "" {
			return profile.ErrNotLoggedIn // another process logged out
		}
		if !t.from.HasAccountOf(p) {
			return ErrProfileChanged // the API of this command must not see a token for another one
		}
		s := *p.Session
		if s.Access == old || !t.isFresh(s) {
			failed = t.redeem(ctx, &s)
		}
		if failed != nil && s == *p.Session {
			return failed // a later call may succeed with the same tokens
		}
		p.Session, t.current = &s, s
		f.Profiles[t.from.Name] = p
		return nil
	})
	if err != nil {
		return err
	}
	return failed
}

// redeem exchanges the refresh token of a session. A canceled command finishes it, because the successor would be lost
// otherwise, and the session with it.
func (t *sessionTokens) redeem(ctx context.Context, s *profile.Session) error {
	if s.Refresh == "" {
		s.Access = ""
		return ErrSessionEnded
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), requestTimeout, errNoAnswer)
	defer cancel()
	ctx = context.WithValue(ctx, oauth2.HTTPClient, t.http)
	config := oauth2.Config{
		ClientID: s.ClientID,
		Endpoint: oauth2.Endpoint{TokenURL: s.TokenURL, AuthStyle: oauth2.AuthStyleInParams},
	}
	granted, err := config.TokenSource(ctx, &oauth2.Token{RefreshToken: s.Refresh.Reveal()}).Token()
	if err == nil {
		return setTokens(s, granted, t.now())
	}
	explained := clarify(ctx, err)
	var refused *refusedError
	if errors.As(explained, &refused) && refused.code == "invalid_grant" {
		s.Access, s.Refresh = "", ""
		return ErrSessionEnded
	}
	if isTemporary(err) {
		return &client.TokenUnavailableError{Err: explained}
	}
	return explained
}

// isTemporary reports whether a renewal that failed with err may succeed later: there was no answer of the identity
// provider, or one that says so.
func isTemporary(err error) bool {
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) {
		return true
	}
	status := refused.Response.StatusCode
	return status >= http.StatusInternalServerError || status == http.StatusTooManyRequests ||
		status == http.StatusRequestTimeout
}

package login

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"

	"golang.org/x/oauth2"

	"agents.example/controlplane/functions/agentctl/profile"
)

// Browser signs the user in with a browser on this machine, and returns the profile to store. It returns ErrNoSignIn if
// the API accepts API keys only.
func (f Flow) Browser(ctx context.Context, baseURL string) (profile.Profile, error) {
	f, ctx, cancel := f.prepare(ctx)
	defer cancel()
	p, err := f.discover(ctx, baseURL)
	if err != nil {
		return profile.Profile{}, err
	}
	if p.AuthorizationEndpoint == "" {
		return profile.Profile{}, fmt.Errorf("the identity provider %s has no sign-in page", p.Issuer)
	}
	l, err := listen(ctx, f.Port)
	if err != nil {
		return profile.Profile{}, err
	}
	defer l.close()
	attempt := attempt{
		provider: p, config: p.config(l.redirectURI), state: rand.Text(), nonce: rand.Text(),
		verifier: oauth2.GenerateVerifier(),
	}
	f.announce(attempt.address(), l.port)
	back, err := f.await(ctx, l, attempt)
	if err != nil {
		return profile.Profile{}, err
	}
	granted, err := attempt.redeem(ctx, back.values)
	var signedIn profile.Profile
	if err == nil {
		signedIn, err = f.newProfile(p, granted, attempt.nonce)
	}
	back.finish(err)
	return signedIn, err
}

// announce prints the address to open.
func (f Flow) announce(address string, port int) {
	text := "Open this address in your browser to sign in:"
	if f.Open != nil {
		text = "Your browser opens to sign in. If it does not, open this address:"
	}
	// The user sees it if it cannot be written: nothing happens.
	_, _ = fmt.Fprintf(f.Out, "%s\n\n  %s\n\nIf the browser runs on another machine, run there first: "+
		"ssh -L %d:127.0.0.1:%d THIS-MACHINE\n", text, address, port, port)
}

// await opens the browser and waits until it comes back.
func (f Flow) await(ctx context.Context, l *listener, a attempt) (*visit, error) {
	opened := make(chan error, 1) // some openers return when the browser is closed
	if f.Open != nil {
		go func() { opened <- f.Open(a.address()) }()
	}
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case err := <-opened:
			if err != nil {
				_, _ = fmt.Fprintln(f.Out, "The browser could not be opened. Open the address above.")
			}
		case back := <-l.visits:
			if back.values.Get("state") == a.state {
				return back, nil
			}
			back.finish(errForeign) // any page can call the listener, and must not end the sign-in
		}
	}
}

// errForeign is the error of a visit that does not belong to the sign-in.
var errForeign = errors.New("this page does not belong to the sign-in that waits in your terminal. Open the address " +
	"that the terminal shows")

// attempt is one authorization request.
type attempt struct {
	provider               provider
	config                 *oauth2.Config
	state, nonce, verifier string
}

// address returns the address of the sign-in page.
func (a attempt) address() string {
	return a.config.AuthCodeURL(a.state, oauth2.S256ChallengeOption(a.verifier),
		oauth2.SetAuthURLParam("nonce", a.nonce))
}

// redeem exchanges the code in the browser's parameters for tokens. The state was checked.
func (a attempt) redeem(ctx context.Context, values url.Values) (*oauth2.Token, error) {
	issuer := values.Get("iss") // RFC 9207: the answer of another provider must not get this one's code
	if (a.provider.SendsIssuer || values.Has("iss")) && issuer != a.provider.Issuer {
		return nil, errors.New("another identity provider answered, so the sign-in was ended. Run: agentctl login")
	}
	if code := values.Get("error"); code != "" {
		return nil, &refusedError{code: oneLine(code), description: oneLine(values.Get("error_description"))}
	}
	if values.Get("code") == "" {
		return nil, errors.New("the identity provider's answer has no code. Run: agentctl login")
	}
	granted, err := a.config.Exchange(ctx, values.Get("code"), oauth2.VerifierOption(a.verifier))
	return granted, clarify(ctx, err)
}

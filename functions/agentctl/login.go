package agentctl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agents.example/controlplane/functions/agentctl/login"
	"agents.example/controlplane/functions/agentctl/profile"
	"agents.example/controlplane/shared/client"
)

// store returns the profiles of the user.
func (t *tool) store() profile.Store { return profile.In(t.app.ConfigDir) }

// client returns the client of the API with the caller's token.
func (t *tool) client() (*client.Client, error) {
	r, err := t.store().Resolve(t.app.Lookup, profile.Flags{Profile: t.profile, BaseURL: t.baseURL})
	if err != nil {
		return nil, err
	}
	if err := t.checkCredential(r); err != nil {
		return nil, err
	}
	tokens, err := login.Tokens(t.store(), r, nil)
	if err != nil {
		return nil, err
	}
	return t.newClient(r.BaseURL, tokens)
}

// newClient returns the client of an API. An address that cannot be used is a wrong command line.
func (t *tool) newClient(baseURL string, tokens client.TokenSource) (*client.Client, error) {
	api, err := client.New(baseURL, tokens, client.WithUserAgent("agentctl"), client.WithRetryNotice(t.retryNotice))
	if err != nil {
		return nil, usageError{err}
	}
	return api, nil
}

// credentialError is a credential that cannot be used.
type credentialError struct{ error }

// Unwrap returns the error inside.
func (e credentialError) Unwrap() error { return e.error }

// checkCredential finds credentials that cannot be sent to the API.
func (t *tool) checkCredential(r profile.Resolved) error {
	if strings.ContainsFunc(r.Key.Reveal(), func(c rune) bool { return c <= ' ' || c > '~' }) {
		return credentialError{errors.New("the API key has a space or another character that keys do not have. " +
			"Check how it was copied")}
	}
	if r.Key != "" || r.Session != nil || !r.Stored {
		return nil
	}
	file, err := t.store().Load()
	if err != nil {
		return err
	}
	stored := file.Profiles[r.Name]
	if at := strings.TrimRight(stored.BaseURL, "/"); stored.IsSignedIn() && at != r.BaseURL {
		return withNext(credentialError{fmt.Errorf("the profile %s is for %s, not %s", r.Name, at, r.BaseURL)},
			"Sign in there: agentctl login --profile NAME --base-url "+r.BaseURL, "Or set AGENTS_API_KEY.")
	}
	return nil
}

// longPause is a pause that users would take for a hang.
const longPause = 5 * time.Second

// retryNotice says why a command pauses.
func (t *tool) retryNotice(pause time.Duration, err error) {
	if pause < longPause {
		return
	}
	reason := "The API cannot be reached"
	if e := client.AsError(err); e != nil {
		reason = fmt.Sprintf("The API asks to wait (status %d)", e.Status)
	} else if _, ok := errors.AsType[*client.TokenUnavailableError](err); ok {
		reason = "The session cannot be renewed at the moment"
	}
	t.note("%s. Trying again in %s.", reason, pause.Round(time.Second))
}

// withoutCredential reports whether err means that the user must sign in.
func withoutCredential(err error) bool {
	var unusable credentialError
	return errors.As(err, &unusable) || errors.Is(err, profile.ErrNoAPI) || errors.Is(err, profile.ErrNotLoggedIn) ||
		errors.Is(err, login.ErrSessionEnded) || errors.Is(err, login.ErrProfileChanged)
}

// signIn has the flags of a sign-in.
type signIn struct {
	device, noBrowser, withKey bool
	port                       int
}

func (t *tool) loginCommand() *cobra.Command {
	var s signIn
	c := &cobra.Command{
		Use: "login", Short: "Sign in with your browser, or store an API key", Args: cobra.NoArgs,
		Long: "Sign in with your browser, and store the session as a profile, which becomes the current one. The " +
			"session is renewed by itself until it ends at the identity provider.\n\n" +
			"On a machine without a browser, use --device if the identity provider supports it, or --no-browser, " +
			"which prints the address to open. With --with-key, the profile gets an API key, which is read from " +
			"the terminal or from standard input.",
		Example: "  agentctl login --base-url https://api.example.com\n" +
			"  agentctl login --profile staging --base-url https://staging.example.com\n" +
			"  agentctl login --device\n" +
			"  agentctl login --with-key < key.txt",
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context(), t) },
	}
	flags := c.Flags()
	flags.BoolVar(&s.device, "device", false, "sign in with a browser on another device")
	flags.BoolVar(&s.noBrowser, "no-browser", false, "print the address to open, and open no browser")
	flags.BoolVar(&s.withKey, "with-key", false, "store an API key instead of a session")
	flags.IntVar(&s.port, "port", 0, "port that the browser returns to, if the identity provider accepts only one")
	c.MarkFlagsMutuallyExclusive("device", "no-browser", "with-key")
	return c
}

func (s signIn) run(ctx context.Context, t *tool) error {
	r, err := t.target()
	if err != nil {
		return err
	}
	p, err := s.profile(ctx, t, r.BaseURL)
	if err != nil {
		return err
	}
	// The check also finds tokens that the API does not accept, before they replace others.
	me, err := t.whoIs(ctx, p)
	if err != nil {
		return err
	}
	if me.Organization != nil {
		p.Organization = me.Organization.ID
	}
	if err := t.store().Save(ctx, r.Name, p); err != nil {
		return err
	}
	t.announce(r, p, me)
	return nil
}

// target returns the profile to sign in to. It refuses to replace the credential of another API.
func (t *tool) target() (profile.Resolved, error) {
	lookup := func(name string) (string, bool) {
		if name == profile.EnvKey {
			return "", false
		}
		return t.app.Lookup(name)
	}
	flags := profile.Flags{Profile: t.profile, BaseURL: t.baseURL, New: true}
	r, err := t.store().Resolve(lookup, flags)
	if err != nil {
		return r, err
	}
	file, err := t.store().Load()
	if err != nil {
		return r, err
	}
	stored := strings.TrimRight(file.Profiles[r.Name].BaseURL, "/")
	if r.Stored && stored != r.BaseURL {
		return r, usagef("the profile %q belongs to %s. Name another one with --profile", r.Name, stored)
	}
	_, err = t.newClient(r.BaseURL, nil)
	return r, err
}

// profile signs the user in.
func (s signIn) profile(ctx context.Context, t *tool, baseURL string) (profile.Profile, error) {
	if s.withKey {
		key, err := t.readKey(ctx)
		return profile.Profile{BaseURL: baseURL, Key: profile.Secret(key)}, err
	}
	flow := login.Flow{Out: t.app.Stderr, Open: t.app.Open, Port: s.port}
	if connection, _ := t.app.Lookup("SSH_CONNECTION"); connection != "" || s.noBrowser {
		flow.Open = nil // a browser on the remote machine helps no user
	}
	if s.device {
		return flow.Device(ctx, baseURL)
	}
	p, err := flow.Browser(ctx, baseURL)
	if errors.Is(err, login.ErrNoSignIn) {
		return p, withNext(err, "To store the key, run: agentctl login --with-key")
	}
	return p, err
}

// readKey reads an API key without showing it.
func (t *tool) readKey(ctx context.Context) (string, error) {
	const longestKey = 1 << 10
	var key string
	var err error
	if t.app.Terminal.In {
		key, err = t.ask(ctx, "API key (hidden): ")
	} else {
		key, err = readAll(t.stdin, longestKey)
	}
	key = strings.TrimSpace(key)
	if err == nil && !strings.HasPrefix(key, "so_") {
		err = invalidf("this is not an API key, which begins with so_. Create one: agentctl keys create")
	}
	return key, err
}

// whoIs asks the API who a credential belongs to.
func (t *tool) whoIs(ctx context.Context, p profile.Profile) (*client.Me, error) {
	token := p.Key
	if p.Session != nil {
		token = p.Session.Access
	}
	api, err := t.newClient(p.BaseURL, client.StaticToken(token.Reveal()))
	if err != nil {
		return nil, err
	}
	return api.GetMe(ctx)
}

// announce says who is signed in. Standard output stays empty, because it is for data.
func (t *tool) announce(r profile.Resolved, p profile.Profile, me *client.Me) {
	who := textOr(me.Email, me.ID)
	if me.APIKey != nil {
		who = "the API key " + me.APIKey.Name
	}
	w := t.stderr()
	fmt.Fprintf(w, "Signed in to %s as %s. The profile %s is the current one.\n", harmless(p.BaseURL), harmless(who),
		r.Name)
	if p.Organization == "" {
		fmt.Fprintln(w, "No organization is active, so you cannot use agents. Choose one in the web app, and sign in "+
			"again.")
	} else {
		fmt.Fprintln(w, "See your agents: agentctl agents list")
	}
	if key, _ := t.app.Lookup(profile.EnvKey); key != "" {
		fmt.Fprintln(w, "AGENTS_API_KEY is set, and takes precedence over the profile. To use the profile, unset it.")
	}
}

func (t *tool) logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use: "logout", Short: "End the session of a profile", Args: cobra.NoArgs,
		Long: "Remove the credential of the profile from this machine, and end its session at the identity provider. " +
			"The profile keeps the API's address. An API key stays valid: agentctl keys revoke ends it.",
		Example: "  agentctl logout\n  agentctl logout --profile staging",
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := t.target()
			if errors.Is(err, profile.ErrNoAPI) || err == nil && !r.Stored {
				return profile.ErrNotLoggedIn
			}
			if err != nil {
				return err
			}
			if err := login.Logout(cmd.Context(), t.store(), r.Name, nil); err != nil {
				return err
			}
			fmt.Fprintf(t.stderr(), "Logged out of the profile %s.\n", r.Name)
			return nil
		},
	}
}

// Package profile stores what the command line tool remembers between runs: which API to call, and with which API key
// or session. It does not sign users in, and it calls no network.
//
// A command finds its API and credential in this order:
//
//  1. flags: --profile names a profile, --base-url an API;
//  2. the environment: AGENTS_PROFILE, AGENTS_BASE_URL and AGENTS_API_KEY;
//  3. the file: the current profile.
//
// A profile that a flag names is used as it is stored: AGENTS_BASE_URL and AGENTS_API_KEY do not change it. The stored
// credential of a profile is sent only to the API that it was stored for.
package profile

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// DefaultName is the name of the profile that is used if no other is named.
const DefaultName = "default"

// Secret is an API key or a token. It is redacted when printed or logged, but not in JSON, because the file is JSON.
type Secret string

// Reveal returns the value.
func (s Secret) Reveal() string { return string(s) }

// String redacts the value.
func (Secret) String() string { return "[redacted]" }

// Format implements fmt.Formatter, so that no verb prints the value.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[redacted]")) }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// File is the content of the configuration file.
type File struct {
	// Current is the profile of commands that name none.
	Current  string             `json:"current,omitempty"`
	Profiles map[string]Profile `json:"profiles"`
	// Rest has what only a later version of the tool knows, as do those of profiles and sessions.
	Rest Secret `json:"-"`
}

// Profile is an API and how to authenticate to it: with Key, or with Session.
type Profile struct {
	BaseURL string   `json:"base_url"`
	Key     Secret   `json:"api_key,omitempty"`
	Session *Session `json:"session,omitempty"`
	// Organization is the ID of the organization that the credential belongs to.
	Organization string `json:"organization,omitempty"`
	Rest         Secret `json:"-"`
}

// Session is a sign-in at the identity provider.
type Session struct {
	// Issuer is the identity provider that issued the tokens, and ClientID is the client it issued them to.
	Issuer   string `json:"issuer"`
	ClientID string `json:"client_id"`
	// TokenURL renews tokens, and RevocationURL ends the session; it may be empty.
	TokenURL      string `json:"token_url"`
	RevocationURL string `json:"revocation_url,omitempty"`
	// Subject is the ID of the user, and Email is for people to recognize the user; both may be empty.
	Subject string `json:"subject,omitempty"`
	Email   string `json:"email,omitempty"`

	Access  Secret    `json:"access_token"`
	Expires time.Time `json:"expires"`
	// Refresh renews the access token once, and is replaced then. Empty if the session cannot be renewed.
	Refresh Secret `json:"refresh_token,omitempty"`
	Rest    Secret `json:"-"`
}

// Names returns the names of all profiles in order.
func (f File) Names() []string { return slices.Sorted(maps.Keys(f.Profiles)) }

// current returns the name of the current profile.
func (f File) current() string { return cmp.Or(f.Current, DefaultName) }

// IsSignedIn reports whether the profile has a credential.
func (p Profile) IsSignedIn() bool { return p.Key != "" || p.Session != nil }

// Method describes the credential for people, without its value.
func (p Profile) Method() string {
	switch {
	case p.Key != "":
		return "API key"
	case p.Session != nil:
		return "session"
	}
	return "none"
}

// CheckName reports an invalid name of a profile.
func CheckName(name string) error {
	// Compiled here: at the start of the program, it would delay commands that name no profile.
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`).MatchString(name) {
		return fmt.Errorf("%q cannot name a profile. Use at most 63 letters, digits, dots, dashes and underscores, "+
			"and begin with a letter or digit", name)
	}
	return nil
}

// UnknownError is the error for a profile that does not exist.
type UnknownError struct {
	Name  string
	Known []string
}

// Error implements error.
func (e *UnknownError) Error() string {
	text := fmt.Sprintf("the profile %q does not exist. Run: agentctl login --profile %s", e.Name, e.Name)
	if len(e.Known) > 0 {
		text = fmt.Sprintf("the profile %q does not exist. Choose one of %s, or run: agentctl login --profile %s",
			e.Name, strings.Join(e.Known, ", "), e.Name)
	}
	return text
}

var (
	// ErrNoAPI is the error of a command that does not know which API to call.
	ErrNoAPI = errors.New("no API is configured. Run: agentctl login --base-url URL, or set AGENTS_BASE_URL")
	// ErrNotLoggedIn is the error of a command that has no credential.
	ErrNotLoggedIn = errors.New("you are not logged in. Run: agentctl login, or set AGENTS_API_KEY")
)

package profile

import (
	"cmp"
	"fmt"
	"strings"
)

// Variables of the environment.
const (
	EnvBaseURL = "AGENTS_BASE_URL"
	EnvKey     = "AGENTS_API_KEY" //nolint:gosec // the name of a variable
	EnvProfile = "AGENTS_PROFILE"
)

// Lookup returns a variable of the environment, like os.LookupEnv.
type Lookup func(name string) (value string, set bool)

// get returns a variable without surrounding space, such as the line feed of a file it was read from.
func (l Lookup) get(name string) string {
	value, _ := l(name)
	return strings.TrimSpace(value)
}

// Flags are the flags that choose an API and a credential. A key is never a flag, because every user of a machine can
// read the arguments of its processes.
type Flags struct {
	// Profile is --profile, and BaseURL is --base-url.
	Profile, BaseURL string
	// New permits a profile that does not exist yet, for login.
	New bool
}

// Resolved is what a command works with.
type Resolved struct {
	// Name is the profile, and Stored reports whether it is in the file. A command that has its API and key from the
	// environment uses no profile, and Name is empty.
	Name   string
	Stored bool
	// BaseURL is the API.
	BaseURL string
	// Key and Session are the credential. At most one of them is set.
	Key     Secret
	Session *Session
	// KeyFromEnvironment reports that Key is that of AGENTS_API_KEY.
	KeyFromEnvironment bool
	// Organization is that of the stored credential; empty if it is unknown.
	Organization string
}

// String describes the choice without the credential.
func (r Resolved) String() string {
	return fmt.Sprintf("profile %q at %s", r.Name, r.BaseURL)
}

// HasAccountOf reports whether the session of a stored profile is for the same API, user and organization.
func (r Resolved) HasAccountOf(p Profile) bool {
	if r.Session == nil || p.Session == nil {
		return false
	}
	a, b := r.Session, p.Session
	return r.BaseURL == cleanURL(p.BaseURL) && r.Organization == p.Organization && a.Issuer == b.Issuer &&
		a.ClientID == b.ClientID && a.Subject == b.Subject
}

// Resolve decides which API a command calls, and with which credential. It returns ErrNoAPI, an *UnknownError or the
// fault of the file. A missing credential is not an error yet: package login reports it when a token is needed.
func (s Store) Resolve(lookup Lookup, flags Flags) (Resolved, error) {
	base, key := lookup.get(EnvBaseURL), Secret(lookup.get(EnvKey))
	named := cmp.Or(flags.Profile, lookup.get(EnvProfile))
	if flags.Profile != "" {
		base, key = "", ""
	}
	base = cmp.Or(flags.BaseURL, base)
	if named == "" && base != "" && key != "" { // needs no file, as in CI
		return Resolved{BaseURL: cleanURL(base), Key: key, KeyFromEnvironment: true}, nil
	}
	file, err := s.Load()
	if err != nil {
		return Resolved{}, err
	}
	name := cmp.Or(named, file.current())
	if err := CheckName(name); err != nil {
		return Resolved{}, err
	}
	stored, known := file.Profiles[name]
	if named != "" && !known && !flags.New {
		return Resolved{}, &UnknownError{Name: name, Known: file.Names()}
	}
	if !known {
		base = cmp.Or(base, lookup.get(EnvBaseURL)) // a new profile has no stored one
	}
	r := Resolved{Name: name, Stored: known, BaseURL: cleanURL(cmp.Or(base, stored.BaseURL))}
	switch {
	case r.BaseURL == "":
		return Resolved{}, ErrNoAPI
	case key != "":
		r.Key, r.KeyFromEnvironment = key, true
	case r.BaseURL == cleanURL(stored.BaseURL): // another API must not see the credential
		r.Key, r.Session, r.Organization = stored.Key, stored.Session, stored.Organization
	}
	return r, nil
}

// cleanURL removes what does not change the meaning of a base URL.
func cleanURL(address string) string { return strings.TrimRight(strings.TrimSpace(address), "/") }

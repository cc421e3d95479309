package login

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"agents.example/controlplane/functions/agentctl/profile"
)

// Logout removes the credential of a profile, keeps its API, and ends its session at the identity provider. It does not
// revoke an API key, which other programs may use. An error after the credential was removed says so.
func Logout(ctx context.Context, store profile.Store, name string, h *http.Client) error {
	var ended *profile.Session
	err := store.Update(ctx, func(f *profile.File) error {
		p, known := f.Profiles[name]
		if !known {
			return &profile.UnknownError{Name: name, Known: f.Names()}
		}
		ended = p.Session
		f.Profiles[name] = profile.Profile{BaseURL: p.BaseURL}
		return nil
	})
	if err != nil || ended == nil {
		return err
	}
	if err := revoke(ctx, *ended, withoutRedirects(h)); err != nil {
		return fmt.Errorf("you are logged out on this machine, but the identity provider did not end the session: %w",
			err)
	}
	return nil
}

// revoke revokes the refresh token, and with it the session's other tokens (RFC 7009). An identity provider without a
// revocation endpoint ends the session when it expires.
func revoke(ctx context.Context, s profile.Session, h *http.Client) error {
	if s.RevocationURL == "" || s.Refresh == "" {
		return nil
	}
	form := url.Values{
		"token": {s.Refresh.Reveal()}, "token_type_hint": {"refresh_token"}, "client_id": {s.ClientID},
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.RevocationURL, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := h.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // only the status counts
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("it answered with the status %d", res.StatusCode)
	}
	return nil
}

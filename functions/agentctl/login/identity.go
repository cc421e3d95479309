package login

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/oauth2"

	"agents.example/controlplane/functions/agentctl/profile"
)

// clockSkew is how far the clocks of this machine and the identity provider may differ.
const clockSkew = 5 * time.Minute

// identity are the claims of an ID token that the tool reads.
type identity struct {
	Issuer   string   `json:"iss"`
	Subject  string   `json:"sub"`
	Audience audience `json:"aud"`
	// Party is the client that the token was issued to, if there are several audiences.
	Party   string `json:"azp"`
	Nonce   string `json:"nonce"`
	Email   string `json:"email"`
	Expires int64  `json:"exp"`
	Issued  int64  `json:"iat"`
	// Organization is the one that the session acts for.
	Organization struct {
		ID string `json:"id"`
	} `json:"o"`
}

// audience is a string or a list of strings.
type audience []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *audience) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(a))
}

// checkIdentity returns the claims of the ID token. The token comes straight from the token endpoint over TLS, which
// vouches for it in place of the signature (OpenID Connect Core 1.0, section 3.1.3.7).
func (p provider) checkIdentity(granted *oauth2.Token, nonce string, now time.Time) (identity, error) {
	token, _ := granted.Extra("id_token").(string)
	claims, ok := readClaims(token)
	switch {
	case token == "":
		return claims, errors.New("the identity provider issued no ID token. Its client must have the scope openid")
	case !ok:
		return claims, errors.New("the identity provider's ID token cannot be read")
	case claims.Issuer != p.Issuer:
		return claims, fmt.Errorf("the ID token is from %q, not from %s", claims.Issuer, p.Issuer)
	case !slices.Contains(claims.Audience, p.clientID),
		len(claims.Audience) > 1 && claims.Party != p.clientID:
		return claims, errors.New("the ID token is for another application")
	case claims.Nonce != nonce:
		return claims, errors.New("the ID token belongs to another sign-in")
	case now.After(time.Unix(claims.Expires, 0).Add(clockSkew)):
		return claims, errors.New("the ID token has expired. Check the clock of this machine")
	}
	claims.Subject, claims.Email = oneLine(claims.Subject), oneLine(claims.Email)
	return claims, nil
}

// readClaims reads the claims of a JWT, and reports whether it is one.
func readClaims(token string) (identity, bool) {
	var claims identity
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return claims, false
	}
	b, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(b, &claims) != nil {
		return identity{}, false
	}
	return claims, true
}

// setTokens replaces the tokens of a session with what the identity provider granted. The API reads JWTs: it gets the
// access token if that is one, and the ID token otherwise.
func setTokens(s *profile.Session, granted *oauth2.Token, now time.Time) error {
	if granted.RefreshToken != "" {
		s.Refresh = profile.Secret(granted.RefreshToken) // also if the rest fails: the previous one was used
	}
	token, expires := granted.AccessToken, granted.Expiry
	claims, ok := readClaims(token)
	if !ok {
		token, _ = granted.Extra("id_token").(string)
		if claims, ok = readClaims(token); !ok {
			return errors.New("the identity provider issued no token that the API can read")
		}
		expires = time.Time{}
	}
	if expires.IsZero() { // by the lifetime, because the clocks may differ
		expires = now.Add(time.Duration(claims.Expires-claims.Issued) * time.Second)
	}
	s.Access, s.Expires = profile.Secret(token), expires.UTC().Truncate(time.Second)
	return nil
}

// oneLine returns a text of another system without what could disturb a terminal.
func oneLine(text string) string {
	clean := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
	const longest = 300
	if runes := []rune(clean); len(runes) > longest {
		return string(runes[:longest]) + "…"
	}
	return clean
}

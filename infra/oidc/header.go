package oidc

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// maxKeyIDBytes bounds a kid. It is looked up in a map and nowhere else, whatever is in it.
const maxKeyIDBytes = 256

// readHeader checks the form and the header of a token and returns the id of the key that it says it is signed with.
// The form is checked here because go-jose is lenient: it takes JSON serialization and passes over white space, which
// gives one token many spellings.
func readHeader(token string) (kid string, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", fmt.Errorf("%d parts instead of 3", len(parts))
	}
	var header []byte
	for i, part := range parts {
		decoded, err := base64.RawURLEncoding.Strict().DecodeString(part)
		// The decoder itself passes over line breaks.
		if err != nil || len(decoded) == 0 || strings.ContainsAny(part, "\r\n") {
			return "", fmt.Errorf("part %d is not canonical base64url, or empty", i+1)
		}
		if i == 0 {
			header = decoded
		}
	}
	h, err := parseObject(header)
	if err != nil {
		return "", err
	}
	return h.keyID()
}

// keyID checks the fields of a header. Where else a key might be had (jku, jwk, x5u, x5c) is not looked at.
func (h object) keyID() (string, error) {
	for _, name := range [...]string{"crit", "b64"} {
		if _, ok := h[name]; ok {
			return "", fmt.Errorf("%s: extensions are not understood here", name)
		}
	}
	alg, err := h.text("alg")
	if err != nil {
		return "", err
	}
	if alg != "RS256" {
		return "", errors.New("alg: only RS256 is good")
	}
	// Other kinds of token (at+jwt, logout+jwt) may be signed with the same key and are no sessions.
	typ, err := h.text("typ")
	if err != nil {
		return "", err
	}
	if typ != "" && !strings.EqualFold(typ, "JWT") {
		return "", errors.New("typ: only JWT is good")
	}
	kid, err := h.text("kid")
	if err != nil {
		return "", err
	}
	if kid == "" || len(kid) > maxKeyIDBytes {
		return "", fmt.Errorf("kid: %d bytes instead of 1 to %d", len(kid), maxKeyIDBytes)
	}
	return kid, nil
}

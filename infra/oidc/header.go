package oidc

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// maxKeyIDBytes bounds a kid. A kid is only ever used as a map key, whatever it contains.
const maxKeyIDBytes = 256

// readHeader checks the form and the header of a token and returns the id of the signing key. It checks the form
// because go-jose is lenient: it accepts JSON serialization and ignores white space, which gives one token many
// spellings.
func readHeader(token string) (kid string, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", fmt.Errorf("got %d parts, want 3", len(parts))
	}
	var header []byte
	for i, part := range parts {
		decoded, err := base64.RawURLEncoding.Strict().DecodeString(part)
		// The decoder ignores line breaks, even in strict mode.
		if err != nil || len(decoded) == 0 || strings.ContainsAny(part, "\r\n") {
			return "", fmt.Errorf("part %d is empty or not canonical base64url", i+1)
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

// keyID checks the fields of a header and returns the kid. It ignores other sources of keys (jku, jwk, x5u, x5c).
func (h object) keyID() (string, error) {
	for _, name := range [...]string{"crit", "b64"} {
		if _, ok := h[name]; ok {
			return "", fmt.Errorf("%s: extensions are not supported", name)
		}
	}
	alg, err := h.text("alg")
	if err != nil {
		return "", err
	}
	if alg != "RS256" {
		return "", errors.New("alg: want RS256")
	}
	// The same key may sign other kinds of tokens (at+jwt, logout+jwt), which are not session tokens.
	typ, err := h.text("typ")
	if err != nil {
		return "", err
	}
	if typ != "" && !strings.EqualFold(typ, "JWT") {
		return "", errors.New("typ: want JWT")
	}
	kid, err := h.text("kid")
	if err != nil {
		return "", err
	}
	if kid == "" || len(kid) > maxKeyIDBytes {
		return "", fmt.Errorf("kid: got %d bytes, want 1 to %d", len(kid), maxKeyIDBytes)
	}
	return kid, nil
}

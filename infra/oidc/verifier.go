package oidc

import (
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// maxTokenBytes is refused before anything is parsed. Session tokens travel in headers and cookies and have about 1 kB.
const maxTokenBytes = 8 << 10

// verifier verifies the tokens of one issuer and reads what they say as a T.
type verifier[T any] struct {
	settings
	keys  *keySet
	cache *cache[T]
	// read checks the claims that are particular to the kind of token.
	read func(object) (T, error)
}

func newVerifier[T any](s settings, read func(object) (T, error)) (*verifier[T], error) {
	s, err := s.complete()
	if err != nil {
		return nil, err
	}
	return &verifier[T]{settings: s, keys: newKeySet(s), cache: newCache[T](cachedTokens), read: read}, nil
}

// verify answers for a token that was good before from memory: it is as good as before while it has not expired and the
// key that signed it is still published. Only good tokens are remembered, so that nobody can fill the memory with
// others.
func (v *verifier[T]) verify(ctx context.Context, token string) (T, error) {
	var nobody T
	if len(token) > maxTokenBytes {
		return nobody, fmt.Errorf("a token of %d bytes: more than %d are not parsed", len(token), maxTokenBytes)
	}
	sum := sha256.Sum256([]byte(token))
	if known, ok := v.cache.get(sum); ok && v.Now().Before(known.expires) && v.keys.holds(known.key) {
		return known.value, nil
	}
	verified, err := v.verifyAnew(ctx, token)
	if err != nil {
		return nobody, err
	}
	v.cache.put(sum, verified)
	return verified.value, nil
}

func (v *verifier[T]) verifyAnew(ctx context.Context, token string) (entry[T], error) {
	kid, err := readHeader(token)
	if err != nil {
		return entry[T]{}, fmt.Errorf("header: %w", err)
	}
	k, err := v.keys.get(ctx, kid)
	if err != nil {
		return entry[T]{}, err
	}
	claims, err := v.signed(ctx, token, k.public)
	if err != nil {
		return entry[T]{}, err
	}
	expires, err := v.checkTimes(claims)
	if err != nil {
		return entry[T]{}, err
	}
	value, err := v.read(claims)
	if err != nil {
		return entry[T]{}, err
	}
	return entry[T]{value: value, expires: expires, key: k}, nil
}

// signed verifies the signature with the one key that the token named, and the issuer, and returns the claims.
func (v *verifier[T]) signed(ctx context.Context, token string, public *rsa.PublicKey) (object, error) {
	one := &oidc.StaticKeySet{PublicKeys: []crypto.PublicKey{public}}
	library := oidc.NewVerifier(v.Issuer, one, &oidc.Config{
		SupportedSigningAlgs: []string{oidc.RS256},
		// A session token has no audience, and a push token's is checked exactly, not as one of several.
		SkipClientIDCheck: true,
		// checkTimes is stricter: here exp may be a string, and nbf may be 5 minutes ahead.
		SkipExpiryCheck: true,
	})
	verified, err := library.Verify(ctx, token)
	if err != nil {
		return nil, err
	}
	var payload json.RawMessage
	if err := verified.Claims(&payload); err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	claims, err := parseObject(payload)
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	return claims, v.checkIssuer(claims)
}

// checkIssuer looks at iss again, by its exact name: encoding/json, which has read it so far, takes "Iss" for it, too.
func (v *verifier[T]) checkIssuer(claims object) error {
	issuer, err := claims.text("iss")
	if err != nil {
		return err
	}
	const google = "https://accounts.google.com"
	if issuer == v.Issuer || v.Issuer == google && issuer == "accounts.google.com" {
		return nil
	}
	return errors.New("claim iss: another issuer")
}

// checkTimes checks exp, nbf and iat, and returns the moment from which the token is no longer good, leeway included.
func (v *verifier[T]) checkTimes(claims object) (time.Time, error) {
	now := v.Now()
	exp, present, err := claims.time("exp")
	switch expires := exp.Add(v.Leeway); {
	case err != nil:
		return time.Time{}, err
	case !present:
		return time.Time{}, errors.New("claim exp: missing")
	case !now.Before(expires):
		return time.Time{}, errors.New("claim exp: the token has expired")
	}
	for _, name := range [...]string{"nbf", "iat"} {
		begins, _, err := claims.time(name)
		if err != nil {
			return time.Time{}, err
		}
		if now.Add(v.Leeway).Before(begins) {
			return time.Time{}, fmt.Errorf("claim %s: it is in the future", name)
		}
	}
	return exp.Add(v.Leeway), nil
}

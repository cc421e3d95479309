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

// maxTokenBytes bounds what is parsed. Session tokens travel in headers and cookies and have about 1 kB.
const maxTokenBytes = 8 << 10

// verifier verifies the tokens of one issuer and reads their claims into a T.
type verifier[T any] struct {
	settings
	keys  *keySet
	cache *cache[T]
	// read checks and reads the claims that only this kind of token has.
	read func(object) (T, error)
}

func newVerifier[T any](s settings, read func(object) (T, error)) (*verifier[T], error) {
	s, err := s.withDefaults()
	if err != nil {
		return nil, err
	}
	return &verifier[T]{settings: s, keys: newKeySet(s), cache: newCache[T](cachedTokens), read: read}, nil
}

// verify returns the cached result of a token that it accepted before, while the token has not expired and the issuer
// still publishes the key that signed it. Only accepted tokens are cached, so invalid tokens cannot fill the cache.
func (v *verifier[T]) verify(ctx context.Context, token string) (T, error) {
	var zero T
	if len(token) > maxTokenBytes {
		return zero, fmt.Errorf("token of %d bytes exceeds the limit of %d bytes", len(token), maxTokenBytes)
	}
	sum := sha256.Sum256([]byte(token))
	if known, ok := v.cache.get(sum); ok && v.Now().Before(known.expires) && v.keys.stillPublishes(known.key) {
		return known.value, nil
	}
	verified, err := v.verifyUncached(ctx, token)
	if err != nil {
		return zero, err
	}
	v.cache.put(sum, verified)
	return verified.value, nil
}

func (v *verifier[T]) verifyUncached(ctx context.Context, token string) (entry[T], error) {
	kid, err := readHeader(token)
	if err != nil {
		return entry[T]{}, fmt.Errorf("header: %w", err)
	}
	k, err := v.keys.get(ctx, kid)
	if err != nil {
		return entry[T]{}, err
	}
	claims, err := v.verifySignature(ctx, token, k.public)
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

// verifySignature verifies the signature with the key that the token names, checks the issuer, and returns the claims.
func (v *verifier[T]) verifySignature(ctx context.Context, token string, public *rsa.PublicKey) (object, error) {
	one := &oidc.StaticKeySet{PublicKeys: []crypto.PublicKey{public}}
	library := oidc.NewVerifier(v.Issuer, one, &oidc.Config{
		SupportedSigningAlgs: []string{oidc.RS256},
		// A session token has no audience. checkPush checks the audience of a push token more strictly.
		SkipClientIDCheck: true,
		// checkTimes is stricter: the library accepts a string as exp, and an nbf 5 minutes ahead.
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

// checkIssuer checks iss again, by its exact name: the library uses encoding/json, which also accepts "Iss".
func (v *verifier[T]) checkIssuer(claims object) error {
	issuer, err := claims.text("iss")
	if err != nil {
		return err
	}
	const google = "https://accounts.google.com"
	if issuer == v.Issuer || v.Issuer == google && issuer == "accounts.google.com" {
		return nil
	}
	return errors.New("claim iss: not the configured issuer")
}

// checkTimes checks exp, nbf and iat, and returns the time at which the token expires, leeway included.
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
			return time.Time{}, fmt.Errorf("claim %s: in the future", name)
		}
	}
	return exp.Add(v.Leeway), nil
}

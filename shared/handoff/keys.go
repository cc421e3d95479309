package handoff

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

// Key is the private key that signs links. Formatting it never prints the key. The zero value is no key.
type Key struct{ jwk *jose.JSONWebKey }

var errInvalidKey = errors.New(`want a private P-256 key as a JSON Web Key: ` +
	`{"kty": "EC", "crv": "P-256", "kid": "...", "x": "...", "y": "...", "d": "..."}`)

// EnvDecode parses a key from configuration. Its errors do not quote the value.
func (k *Key) EnvDecode(value string) error {
	if value == "" {
		return nil
	}
	var parsed jose.JSONWebKey
	if json.Unmarshal([]byte(value), &parsed) != nil {
		return errInvalidKey
	}
	private, ok := parsed.Key.(*ecdsa.PrivateKey)
	if !ok || private.Curve != elliptic.P256() || parsed.KeyID == "" || !parsed.Valid() {
		return errInvalidKey
	}
	k.jwk = &parsed
	return nil
}

// String keeps the key out of formatted text.
func (Key) String() string { return "[redacted]" }

// GoString keeps the key out of formatted text.
func (Key) GoString() string { return "[redacted]" }

// KeySet is a JSON Web Key Set of public keys. The zero value is empty.
type KeySet struct{ set jose.JSONWebKeySet }

// EnvDecode parses a key set from configuration. It refuses private keys, because the set is published.
func (s *KeySet) EnvDecode(value string) error {
	if value == "" {
		return nil
	}
	parsed, err := ParseKeySet(value)
	if err == nil {
		*s = parsed
	}
	return err
}

// ParseKeySet parses a key set, such as the published one. It refuses private keys.
func ParseKeySet(text string) (KeySet, error) {
	var parsed jose.JSONWebKeySet
	if json.Unmarshal([]byte(text), &parsed) != nil || parsed.Keys == nil {
		return KeySet{}, errors.New(`want a JSON Web Key Set: {"keys": [...]}`)
	}
	for i, key := range parsed.Keys {
		if !key.IsPublic() || !key.Valid() || key.KeyID == "" {
			return KeySet{}, fmt.Errorf("key %d of the set is not a valid public key with a kid", i)
		}
		parsed.Keys[i].Use, parsed.Keys[i].Algorithm = "sig", string(jose.ES256)
	}
	return KeySet{parsed}, nil
}

// With returns a set that has the keys of more, too.
func (s KeySet) With(more KeySet) KeySet {
	return KeySet{jose.JSONWebKeySet{Keys: slices.Concat(s.set.Keys, more.set.Keys)}}
}

// MarshalJSON implements json.Marshaler with the published form of the set.
func (s KeySet) MarshalJSON() ([]byte, error) {
	set := s.set
	if set.Keys == nil {
		set.Keys = []jose.JSONWebKey{}
	}
	return json.Marshal(set)
}

// Generate returns a new key and the set with its public half, both in the form that EnvDecode parses.
func Generate() (key, set string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	id := make([]byte, 9)
	_, _ = rand.Read(id) // never fails: crypto/rand crashes the process instead
	jwk := jose.JSONWebKey{
		Key: private, KeyID: base64.RawURLEncoding.EncodeToString(id), Algorithm: string(jose.ES256), Use: "sig",
	}
	secret, err := json.Marshal(jwk)
	if err != nil {
		return "", "", err
	}
	public, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{jwk.Public()}})
	return string(secret), string(public), err
}

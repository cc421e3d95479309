package handoff

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

// Key is the private key that signs links. It never prints. The zero value is none.
type Key struct{ jwk *jose.JSONWebKey }

var errKey = errors.New(`want a private P-256 key as a JSON Web Key: {"kty": "EC", "crv": "P-256", "kid": "...", "x": "...", "y": "...", "d": "..."}`)

// EnvDecode reads a key from configuration. The error never quotes the value.
func (k *Key) EnvDecode(value string) error {
	if value == "" {
		return nil
	}
	var parsed jose.JSONWebKey
	if json.Unmarshal([]byte(value), &parsed) != nil {
		return errKey
	}
	private, ok := parsed.Key.(*ecdsa.PrivateKey)
	if !ok || private.Curve != elliptic.P256() || parsed.KeyID == "" || !parsed.Valid() {
		return errKey
	}
	k.jwk = &parsed
	return nil
}

// String keeps the key out of formatted text.
func (Key) String() string { return "[redacted]" }

// GoString keeps the key out of formatted text.
func (Key) GoString() string { return "[redacted]" }

// KeySet are public keys, as a JSON Web Key Set. The zero value has none.
type KeySet struct{ set jose.JSONWebKeySet }

// EnvDecode reads a key set from configuration. A private key in it is refused: the set is published.
func (s *KeySet) EnvDecode(value string) error {
	if value == "" {
		return nil
	}
	var parsed jose.JSONWebKeySet
	if json.Unmarshal([]byte(value), &parsed) != nil {
		return errors.New(`want a JSON Web Key Set: {"keys": [...]}`)
	}
	for i, key := range parsed.Keys {
		if !key.IsPublic() || !key.Valid() || key.KeyID == "" {
			return fmt.Errorf("key %d of the set is not a valid public key with a kid", i)
		}
		parsed.Keys[i].Use, parsed.Keys[i].Algorithm = "sig", string(jose.ES256)
	}
	s.set = parsed
	return nil
}

// MarshalJSON writes the set as it is published.
func (s KeySet) MarshalJSON() ([]byte, error) {
	set := s.set
	if set.Keys == nil {
		set.Keys = []jose.JSONWebKey{}
	}
	return json.Marshal(set)
}

// Generate makes a key and the set that holds its public half, as they stand in configuration.
func Generate() (key, set string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	id := make([]byte, 9)
	_, _ = rand.Read(id) // never fails: crypto/rand ends the process instead
	jwk := jose.JSONWebKey{Key: private, KeyID: base64.RawURLEncoding.EncodeToString(id), Algorithm: string(jose.ES256),
		Use: "sig"}
	secret, err := json.Marshal(jwk)
	if err != nil {
		return "", "", err
	}
	public, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{jwk.Public()}})
	return string(secret), string(public), err
}

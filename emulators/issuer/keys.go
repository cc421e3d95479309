package issuer

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"sync"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	keyBits = 2048
	// publishedKeys is the number of published keys: the signing key and the previous one, so that tokens stay valid
	// across one rotation.
	publishedKeys = 2
)

type key struct {
	public jose.JSONWebKey
	signer jose.Signer
}

// firstKey is the first key of all issuers of this process: tests start many, and a key takes a tenth of a second.
var firstKey = sync.OnceValues(newKey)

// Rotate creates a new signing key. Tokens of the previous key stay valid until the next rotation; older ones become
// invalid.
func (i *Issuer) Rotate() error {
	fresh, err := newKey()
	if err != nil {
		return fmt.Errorf("create a signing key: %w", err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = append([]key{fresh}, i.keys[:min(len(i.keys), publishedKeys-1)]...)
	return nil
}

// Mint signs claims unchanged, valid or not, with RS256 and the newest key.
func (i *Issuer) Mint(claims map[string]any) (string, error) {
	i.mu.Lock()
	signer := i.keys[0].signer
	i.mu.Unlock()
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	return token, nil
}

func newKey() (key, error) {
	private, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return key{}, err
	}
	public := jose.JSONWebKey{Key: private.Public(), Algorithm: string(jose.RS256), Use: "sig"}
	thumbprint, err := public.Thumbprint(crypto.SHA256)
	if err != nil {
		return key{}, err
	}
	public.KeyID = base64.RawURLEncoding.EncodeToString(thumbprint)
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: private, KeyID: public.KeyID}},
		(&jose.SignerOptions{}).WithType("JWT"),
	)
	return key{public: public, signer: signer}, err
}

// keySet returns the public keys for verifiers.
func (i *Issuer) keySet() jose.JSONWebKeySet {
	i.mu.Lock()
	defer i.mu.Unlock()
	var set jose.JSONWebKeySet
	for _, k := range i.keys {
		set.Keys = append(set.Keys, k.public)
	}
	return set
}

package webhook

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Secrets derives the signing secrets of webhooks from a key. No secret of a webhook is stored anywhere, so a request
// that dies half-way leaves none behind, and a webhook's secret ends with its record.
//
// While one key replaces another, deliveries are signed with the secrets of both, so that receivers verify them before
// and after they take the new secret. The keys are replaced in the same steps as peppers (apikey.Peppers): first all
// instances sign with the next key, then new secrets derive from it.
type Secrets struct {
	// keys begins with the one from which new secrets derive.
	keys [][]byte
}

const (
	// MinKeyBytes is the shortest key of Secrets.
	MinKeyBytes = 32
	// secretBytes is the length of a secret. Standard Webhooks wants 24 to 64 bytes.
	secretBytes = 32
	// secretPrefix begins a secret as it is shown.
	secretPrefix = "whsec_"
)

// NewSecrets returns the secrets that derive from a key.
func NewSecrets(key []byte) (Secrets, error) {
	if len(key) < MinKeyBytes {
		return Secrets{}, fmt.Errorf("the key of webhooks' secrets must have at least %d bytes", MinKeyBytes)
	}
	return Secrets{keys: [][]byte{key}}, nil
}

// EnvDecode parses the key from configuration, in standard base64. Its errors never contain the value. An empty value
// is no key, with which Of fails.
func (s *Secrets) EnvDecode(value string) error {
	if value == "" {
		return nil
	}
	key, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return fmt.Errorf("want at least %d bytes in standard base64", MinKeyBytes)
	}
	*s, err = NewSecrets(key)
	return err
}

// String keeps the key out of formatted text.
func (Secrets) String() string { return "[redacted]" }

// GoString keeps the key out of formatted text.
func (Secrets) GoString() string { return "[redacted]" }

var errNoKey = errors.New("the key of webhooks' secrets is not configured")

// AlsoSigning returns the secrets that also sign with the keys of others. New secrets derive from the key of s.
func (s Secrets) AlsoSigning(others ...Secrets) Secrets {
	if len(s.keys) == 0 {
		return s
	}
	for _, other := range others {
		s.keys = append(slices.Clip(s.keys), other.keys...)
	}
	return s
}

// Of derives the secret of a webhook as it is shown. Each version of a webhook's secret is another one.
func (s Secrets) Of(w Webhook) (Secret, error) {
	if len(s.keys) == 0 {
		return nil, errNoKey
	}
	return derive(s.keys[0], w.ID, w.SecretVersion)
}

// Signing derives the secrets that sign a webhook's deliveries at a time.
func (s Secrets) Signing(w Webhook, now time.Time) ([]Secret, error) {
	if len(s.keys) == 0 {
		return nil, errNoKey
	}
	var secrets []Secret
	for _, key := range s.keys {
		for _, signs := range append([]SecretEnd{{Version: w.SecretVersion}}, w.formerSecrets(now)...) {
			secret, err := derive(key, w.ID, signs.Version)
			if err != nil {
				return nil, err
			}
			secrets = append(secrets, secret)
		}
	}
	return secrets, nil
}

func derive(key []byte, id string, version int64) (Secret, error) {
	info := "webhook secret " + id + " " + strconv.FormatInt(version, 10)
	return hkdf.Key(sha256.New, key, nil, info, secretBytes)
}

// Secret signs the deliveries of one webhook. Formatting it never prints it.
type Secret []byte

// Reveal returns the secret as its owner gets it.
func (s Secret) Reveal() string { return secretPrefix + base64.StdEncoding.EncodeToString(s) }

// String keeps the secret out of formatted text.
func (Secret) String() string { return "[redacted]" }

// GoString keeps the secret out of formatted text.
func (Secret) GoString() string { return "[redacted]" }

// Sign returns one signature of a message for its webhook-signature header.
func (s Secret) Sign(id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, s)
	fmt.Fprintf(mac, "%s.%d.", id, at.Unix())
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

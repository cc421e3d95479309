package webhook

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Secrets derives the signing secrets of webhooks from one key. No secret of a webhook is stored anywhere, so a request
// that dies half-way leaves none behind, and a webhook's secret ends with its record.
type Secrets struct{ key []byte }

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
	return Secrets{key: key}, nil
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

// Of derives the secret of a webhook. Each version of a webhook's secret is another one.
func (s Secrets) Of(w Webhook) (Secret, error) {
	if len(s.key) == 0 {
		return nil, errNoKey
	}
	info := "webhook secret " + w.ID + " " + strconv.FormatInt(w.SecretVersion, 10)
	return hkdf.Key(sha256.New, s.key, nil, info, secretBytes)
}

// Secret signs the deliveries of one webhook. Formatting it never prints it.
type Secret []byte

// Reveal returns the secret as its owner gets it.
func (s Secret) Reveal() string { return secretPrefix + base64.StdEncoding.EncodeToString(s) }

// String keeps the secret out of formatted text.
func (Secret) String() string { return "[redacted]" }

// GoString keeps the secret out of formatted text.
func (Secret) GoString() string { return "[redacted]" }

// Sign returns the webhook-signature header of a message.
func (s Secret) Sign(id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, s)
	fmt.Fprintf(mac, "%s.%d.", id, at.Unix())
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

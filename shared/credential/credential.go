// Package credential defines the credentials of an agent's dashboard and API, and the ports to the secret store, their
// only place. It does not store them itself, and never writes a value to a record, a message or a log.
package credential

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"log/slog"
	"strings"
	"time"
)

// Credentials open the agent's dashboard and API.
type Credentials struct {
	DashboardUsername string `json:"dashboard_username"`
	DashboardPassword string `json:"dashboard_password"`
	// APIKey is the tenant's key for the agent's own API.
	APIKey string `json:"tenant_api_key"`
}

// LogValue keeps credentials out of logs.
func (Credentials) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// String keeps credentials out of formatted text.
func (Credentials) String() string { return "[redacted]" }

// GoString keeps credentials out of formatted text.
func (Credentials) GoString() string { return "[redacted]" }

// Generate makes new credentials for a user from 192 random bits each.
func Generate(username string) Credentials {
	return Credentials{DashboardUsername: username, DashboardPassword: random(), APIKey: KeyScheme + random()}
}

// KeyScheme begins every API key of an agent.
const KeyScheme = "ak_"

// KeyWellFormed reports whether a text has the form of an agent's API key. It needs no look-up.
func KeyWellFormed(text string) bool {
	encoded, ok := strings.CutPrefix(text, KeyScheme)
	b, err := base64.RawURLEncoding.DecodeString(encoded)
	return ok && err == nil && len(b) == keyBytes
}

// HashKey returns what the record of an agent has of its API key. A key has too many random bits for a guess, so the
// hash needs no secret.
func HashKey(agentID, key string) string {
	sum := sha256.Sum256([]byte("agent-api-key " + agentID + " " + key))
	return hex.EncodeToString(sum[:])
}

// keyBytes is the number of random bytes in a key and in a password.
const keyBytes = 24

func random() string {
	b := make([]byte, keyBytes)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return base64.RawURLEncoding.EncodeToString(b)
}

// SecretStore is the port through which workers use an agent's secrets. Keys are those of secret variables, or
// secret.CredentialsKey. The versions of a key are numbered 1, 2, 3 and so on, and no number is ever reused.
//
// Only adding a version and reading it by its number are strongly consistent. What a store lists may be hours old. So
// callers name versions and keys by what their records know.
type SecretStore interface {
	// EnsureCredentials returns version 1 of the credentials, and generates it if there is none. Concurrent calls
	// return the same credentials. It is for an agent whose record names no version yet.
	EnsureCredentials(ctx context.Context, agentID, username string) (Credentials, int64, error)
	Reader
	// Read returns the value of a version of a secret variable.
	Read(ctx context.Context, agentID, key string, version int64) ([]byte, error)
	// DestroyVersions destroys the versions from one number up to, but without, another. All of them must have been
	// added. A second call succeeds, and so does a call for a secret that does not exist. Errors: Unavailable.
	DestroyVersions(ctx context.Context, agentID, key string, from, before int64) error
	// Destroy removes every secret of an agent: those of the given keys, its credentials, and all that the store
	// lists. A second call succeeds.
	Destroy(ctx context.Context, agentID string, keys []string) error
}

// Reader reads an agent's credentials.
type Reader interface {
	// GetCredentials returns a version of the credentials. Errors: BadRequest if it is destroyed, Unavailable.
	GetCredentials(ctx context.Context, agentID string, version int64) (Credentials, error)
}

// ErrRefused is wrapped by an error of SecretWriter after which the version was certainly not added, and never will be.
// After any other error of Put or AddCredentials, the version may exist, or appear within secret.StoringTime.
var ErrRefused = errors.New("the secret store refused the version")

// SecretWriter is the port through which requests add values and look versions up. It reads no values. Keys are those
// of secret variables, or secret.CredentialsKey.
type SecretWriter interface {
	// Put stores the value of a secret variable as a new version. It never retries by itself: after a lost answer, the
	// caller must find out whether the version was added. Errors: Unavailable, which may wrap ErrRefused.
	Put(ctx context.Context, agentID, key string, value []byte) (version int64, err error)
	// PutFirst is Put for a variable that probably has no secret yet. It makes fewer calls of the store in that case.
	PutFirst(ctx context.Context, agentID, key string, value []byte) (version int64, err error)
	// AddCredentials stores new credentials as a new version. It never retries by itself, either. Errors: those of Put.
	AddCredentials(ctx context.Context, agentID, username string) (version int64, err error)
	// LatestVersion returns the number of the version that was added last, even if it is destroyed; 0 if there never
	// was one. The answer may be hours old.
	LatestVersion(ctx context.Context, agentID, key string) (int64, error)
	// VersionCreated looks a version up by its number. found proves that the version exists; if found is false, the
	// version may still exist. created is zero for a version whose value is destroyed or disabled.
	VersionCreated(ctx context.Context, agentID, key string, version int64) (created time.Time, found bool, err error)
}

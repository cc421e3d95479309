// Package credential knows the credentials of an agent's own dashboard and API. They are kept in the secret store
// alone: no value of this package is ever written to a record, a message or a log.
package credential

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"log/slog"
)

// Credentials are what the agent's gateway accepts.
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
	return Credentials{DashboardUsername: username, DashboardPassword: random(), APIKey: "ak_" + random()}
}

func random() string {
	b := make([]byte, 24)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return base64.RawURLEncoding.EncodeToString(b)
}

// SecretStore is what workers do with an agent's secrets in the secret store.
type SecretStore interface {
	// EnsureCredentials returns the credentials in force and their version, generating the first when there are none.
	// Two calls at once agree on the same. It is for an agent whose record names no version yet.
	EnsureCredentials(ctx context.Context, agentID, username string) (Credentials, int64, error)
	Reader
	// Read returns the value of a version of a secret variable.
	Read(ctx context.Context, agentID, key string, version int64) ([]byte, error)
	// DestroyVersionsBefore destroys the versions of a secret that are older than one; the credentials' older versions
	// are in force no more. The numbers of versions are never given again. Pruning twice is a success.
	DestroyVersionsBefore(ctx context.Context, agentID, key string, before int64) error
	// Destroy removes every secret of an agent. Destroying twice is a success.
	Destroy(ctx context.Context, agentID string) error
}

// Reader reads an agent's credentials.
type Reader interface {
	// GetCredentials returns a version of the credentials. Errors: BadRequest when it is there no more, Unavailable.
	GetCredentials(ctx context.Context, agentID string, version int64) (Credentials, error)
}

// SecretWriter takes values that requests bring, and tells which versions there are. It reads no value. Keys are those
// of secret variables, or secret.CredentialsKey.
type SecretWriter interface {
	// Put stores the value of a secret variable as a new version. It is never repeated by itself: a lost answer is the
	// caller's to settle.
	Put(ctx context.Context, agentID, key string, value []byte) (version int64, err error)
	// AddCredentials stores new credentials as a new version that is not in force yet. It is never repeated by itself,
	// either.
	AddCredentials(ctx context.Context, agentID, username string) (version int64, err error)
	// LatestVersion is the number of the version that was added last, whatever became of it; 0 when there never was
	// any.
	LatestVersion(ctx context.Context, agentID, key string) (int64, error)
	// VersionsAfter lists the versions after one that can be read, in ascending order.
	VersionsAfter(ctx context.Context, agentID, key string, after int64) ([]int64, error)
}

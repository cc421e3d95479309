// Package credential defines the credentials of an agent's dashboard and API, and the ports to the secret store, their
// only place. It does not store them itself, and never writes a value to a record, a message or a log.
package credential

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"log/slog"
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
	return Credentials{DashboardUsername: username, DashboardPassword: random(), APIKey: "ak_" + random()}
}

func random() string {
	b := make([]byte, 24)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return base64.RawURLEncoding.EncodeToString(b)
}

// SecretStore is the port through which workers use an agent's secrets.
type SecretStore interface {
	// EnsureCredentials returns the credentials in force and their version. It generates the first ones. Concurrent
	// calls return the same credentials. It is for an agent whose record names no version yet.
	EnsureCredentials(ctx context.Context, agentID, username string) (Credentials, int64, error)
	Reader
	// Read returns the value of a version of a secret variable.
	Read(ctx context.Context, agentID, key string, version int64) ([]byte, error)
	// DestroyVersionsBefore destroys the versions of a secret that are older than the given one. Of the credentials,
	// the oldest remaining version is then in force. Version numbers are never reused. A second call succeeds.
	DestroyVersionsBefore(ctx context.Context, agentID, key string, before int64) error
	// Destroy removes every secret of an agent. A second call succeeds.
	Destroy(ctx context.Context, agentID string) error
}

// Reader reads an agent's credentials.
type Reader interface {
	// GetCredentials returns a version of the credentials. Errors: BadRequest if it is destroyed, Unavailable.
	GetCredentials(ctx context.Context, agentID string, version int64) (Credentials, error)
}

// SecretWriter is the port through which requests add values and list versions. It reads no values. Keys are those of
// secret variables, or secret.CredentialsKey.
type SecretWriter interface {
	// Put stores the value of a secret variable as a new version. It never retries by itself: after a lost answer, the
	// caller must find out whether the version was added.
	Put(ctx context.Context, agentID, key string, value []byte) (version int64, err error)
	// AddCredentials stores new credentials as a new version that is not in force yet. It never retries by itself,
	// either.
	AddCredentials(ctx context.Context, agentID, username string) (version int64, err error)
	// LatestVersion returns the number of the version that was added last, even if it is destroyed; 0 if there never
	// was one.
	LatestVersion(ctx context.Context, agentID, key string) (int64, error)
	// VersionsAfter lists the readable versions after the given one, in ascending order.
	VersionsAfter(ctx context.Context, agentID, key string, after int64) ([]int64, error)
}

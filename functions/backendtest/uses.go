package backendtest

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/webhook"
)

// uses records which dependencies the functions of a backend used: every port below calls add with the name of its
// field in functions.Dependencies. The records in Firestore are one entry, because all of them are one client.
type uses struct {
	mu   sync.Mutex
	seen map[string]bool
}

// Records stands for the fields of functions.Dependencies that are stored in Firestore.
const Records = "Records"

// RecordReads stands for the fields of functions.Dependencies that only read records.
const RecordReads = "RecordReads"

// readOf is what a call of a field that only reads records uses. A call that writes counts as a use of the other
// fields, whose need is wider.
func readOf(method string) string {
	switch method {
	case "/google.firestore.v1.Firestore/BatchGetDocuments", "/google.firestore.v1.Firestore/RunQuery":
		return RecordReads
	default:
		return Records
	}
}

func newUses() *uses { return &uses{seen: map[string]bool{}} }

func (u *uses) add(field string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seen[field] = true
}

func (u *uses) list() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Sorted(maps.Keys(u.seen))
}

// nudger takes nudges, and passes them on if there is a receiver.
type nudger struct {
	*uses
	to agent.Nudger
}

var _ agent.Nudger = nudger{}

// Nudge implements agent.Nudger.
func (n nudger) Nudge(ctx context.Context, agentID string) error {
	n.add("Nudger")
	if n.to == nil {
		return nil
	}
	return n.to.Nudge(ctx, agentID)
}

// webhookNudger drops nudges.
type webhookNudger struct{ *uses }

var _ webhook.Nudger = webhookNudger{}

// NudgeWebhook implements webhook.Nudger.
func (n webhookNudger) NudgeWebhook(context.Context, string) error {
	n.add("WebhookNudger")
	return nil
}

// webhookSecrets records the use of secrets.
type webhookSecrets struct {
	*uses
	secrets webhook.Secrets
}

var _ webhook.SecretSource = webhookSecrets{}

// Of implements webhook.SecretSource.
func (s webhookSecrets) Of(w webhook.Webhook) (webhook.Secret, error) {
	s.add("WebhookSecrets")
	return s.secrets.Of(w)
}

// Signing implements webhook.SecretSource.
func (s webhookSecrets) Signing(w webhook.Webhook, now time.Time) ([]webhook.Secret, error) {
	s.add("WebhookSecrets")
	return s.secrets.Signing(w, now)
}

// webhookSender is a receiver that takes every message.
type webhookSender struct{ *uses }

var _ webhook.Sender = webhookSender{}

// Send implements webhook.Sender.
func (s webhookSender) Send(context.Context, webhook.Message) webhook.Result {
	s.add("WebhookSender")
	return webhook.Result{HTTPStatus: 204}
}

// secretStore records the use of a real secret store.
type secretStore struct {
	*uses
	store credential.SecretStore
}

var _ credential.SecretStore = secretStore{}

// EnsureCredentials implements credential.SecretStore.
func (s secretStore) EnsureCredentials(ctx context.Context, agentID, username string) (credential.Credentials, int64,
	error,
) {
	s.add("SecretStore")
	return s.store.EnsureCredentials(ctx, agentID, username)
}

// GetCredentials implements credential.SecretStore.
func (s secretStore) GetCredentials(ctx context.Context, agentID string, version int64) (credential.Credentials,
	error,
) {
	s.add("SecretStore")
	return s.store.GetCredentials(ctx, agentID, version)
}

// Read implements credential.SecretStore.
func (s secretStore) Read(ctx context.Context, agentID, key string, version int64) ([]byte, error) {
	s.add("SecretStore")
	return s.store.Read(ctx, agentID, key, version)
}

// DestroyVersions implements credential.SecretStore.
func (s secretStore) DestroyVersions(ctx context.Context, agentID, key string, from, before int64) error {
	s.add("SecretStore")
	return s.store.DestroyVersions(ctx, agentID, key, from, before)
}

// Destroy implements credential.SecretStore.
func (s secretStore) Destroy(ctx context.Context, agentID string, keys []string) error {
	s.add("SecretStore")
	return s.store.Destroy(ctx, agentID, keys)
}

// secretWriter records the use of a real secret writer.
type secretWriter struct {
	*uses
	writer credential.SecretWriter
}

var _ credential.SecretWriter = secretWriter{}

// Put implements credential.SecretWriter.
func (s secretWriter) Put(ctx context.Context, agentID, key string, value []byte) (int64, error) {
	s.add("SecretWriter")
	return s.writer.Put(ctx, agentID, key, value)
}

// PutFirst implements credential.SecretWriter.
func (s secretWriter) PutFirst(ctx context.Context, agentID, key string, value []byte) (int64, error) {
	s.add("SecretWriter")
	return s.writer.PutFirst(ctx, agentID, key, value)
}

// AddCredentials implements credential.SecretWriter.
func (s secretWriter) AddCredentials(ctx context.Context, agentID, username string) (int64, error) {
	s.add("SecretWriter")
	return s.writer.AddCredentials(ctx, agentID, username)
}

// LatestVersion implements credential.SecretWriter.
func (s secretWriter) LatestVersion(ctx context.Context, agentID, key string) (int64, error) {
	s.add("SecretWriter")
	return s.writer.LatestVersion(ctx, agentID, key)
}

// VersionCreated implements credential.SecretWriter.
func (s secretWriter) VersionCreated(ctx context.Context, agentID, key string, version int64) (time.Time, bool,
	error,
) {
	s.add("SecretWriter")
	return s.writer.VersionCreated(ctx, agentID, key, version)
}

// credentialReader records the use of a real reader of credentials.
type credentialReader struct {
	*uses
	reader credential.Reader
}

var _ credential.Reader = credentialReader{}

// GetCredentials implements credential.Reader.
func (s credentialReader) GetCredentials(ctx context.Context, agentID string, version int64) (credential.Credentials,
	error,
) {
	s.add("Credentials")
	return s.reader.GetCredentials(ctx, agentID, version)
}

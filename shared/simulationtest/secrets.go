package simulationtest

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/secret"
)

// SecretStore is the simulated secret store. Adding and reading a version by its number is strongly consistent. A list
// may lag behind.
type SecretStore struct {
	now     func() time.Time
	secrets map[string]*storedSecret
	// Lag returns how many of the latest changes the next list does not show.
	Lag func() int
	// Added is told of each version that is added.
	Added func(id, key string)
	// Accessed is told of each value of a variable that a process reads.
	Accessed func(id, key string)
	// Rules are what the store and its adapter guarantee.
	Rules SecretRules
	added int
	// surplus holds the agents with first credentials that a worker failed to destroy.
	surplus map[string]bool
	// changes counts.
	changes int64
	// removed lists the owners of deleted secrets.
	removed []string
}

// SecretRules undo guards of the secret store's adapter. The zero value has all guards.
type SecretRules struct {
	// RepeatAdds adds a value again after a lost answer.
	RepeatAdds bool
	// NewCredentials adds credentials at each EnsureCredentials.
	NewCredentials bool
	// DestroyOneMore destroys the version after the range, too.
	DestroyOneMore bool
	// HideOwners hides all secrets from the collector of orphans.
	HideOwners bool
	// ForgetUnknown reports a value with an unknown outcome as refused.
	ForgetUnknown bool
	// GuessVersion answers a lost answer with the next number.
	GuessVersion bool
	// NoCreationTime reports every version as new.
	NoCreationTime bool
	// TrustLists makes decisions by lists instead of numbers.
	TrustLists bool
}

type storedSecret struct {
	agentID, key  string
	createdAt     time.Time
	versions      []secretVersion
	orphanedSince time.Time
}

type secretVersion struct {
	value       string
	credentials credential.Credentials
	createdAt   time.Time
	destroyed   bool
}

// NewSecretStore returns an empty store.
func NewSecretStore(now func() time.Time) *SecretStore {
	return &SecretStore{
		now: now, secrets: map[string]*storedSecret{}, surplus: map[string]bool{}, Lag: func() int { return 0 },
	}
}

// Clone returns a copy.
func (s *SecretStore) Clone(now func() time.Time) *SecretStore {
	next := NewSecretStore(now)
	next.Rules, next.added = s.Rules, s.added
	for ref, found := range s.secrets {
		copied := *found
		copied.versions = slices.Clone(found.versions)
		next.secrets[ref] = &copied
	}
	return next
}

// exists reports whether there is a secret, with or without versions.
func (s *SecretStore) exists(id, key string) bool { return s.secrets[secret.Ref(id, key)] != nil }

// latest is the number of the version that was added last.
func (s *SecretStore) latest(id, key string) int64 {
	if found := s.secrets[secret.Ref(id, key)]; found != nil {
		return int64(len(found.versions))
	}
	return 0
}

// add adds a version.
func (s *SecretStore) add(id, key string, v secretVersion) int64 {
	ref := secret.Ref(id, key)
	if s.secrets[ref] == nil {
		s.secrets[ref] = &storedSecret{agentID: id, key: key, createdAt: s.now()}
	}
	s.changes++
	if s.Added != nil {
		s.Added(id, key)
	}
	v.createdAt = s.now()
	s.secrets[ref].versions = append(s.secrets[ref].versions, v)
	return int64(len(s.secrets[ref].versions))
}

// generate makes credentials that differ from all others.
func (s *SecretStore) generate(username string) credential.Credentials {
	s.added++
	text := strconv.Itoa(s.added)
	text += strings.Repeat("-", 24)
	return credential.Credentials{
		DashboardUsername: username, DashboardPassword: "password " + text, APIKey: "key " + text,
	}
}

// access returns a version by its number.
func (s *SecretStore) access(id, key string, number int64) (secretVersion, bool) {
	found := s.secrets[secret.Ref(id, key)]
	if found == nil || number < 1 || number > int64(len(found.versions)) {
		return secretVersion{}, false
	}
	return found.versions[number-1], true
}

// list returns the numbers of a secret's versions, as a list shows them.
func (s *SecretStore) list(id, key string) (versions []secretVersion) {
	found := s.secrets[secret.Ref(id, key)]
	if found == nil {
		return nil
	}
	return found.versions[:max(0, len(found.versions)-s.Lag())]
}

// destroy destroys the versions from one number to before another.
func (s *SecretStore) destroy(id, key string, from, before int64) {
	found := s.secrets[secret.Ref(id, key)]
	if found == nil {
		return
	}
	if s.Rules.DestroyOneMore {
		before++
	}
	s.changes++
	for n := max(from, 1); n < before && n <= int64(len(found.versions)); n++ {
		found.versions[n-1].destroyed = true
	}
}

// listed returns the keys of an agent's secrets, as a list shows them.
func (s *SecretStore) listed(id string) []string {
	var found []*storedSecret
	for _, ref := range slices.Sorted(maps.Keys(s.secrets)) {
		if s.secrets[ref].agentID == id {
			found = append(found, s.secrets[ref])
		}
	}
	slices.SortStableFunc(found, func(x, y *storedSecret) int { return x.createdAt.Compare(y.createdAt) })
	found = found[:max(0, len(found)-s.Lag())]
	keys := make([]string, len(found))
	for i, each := range found {
		keys[i] = each.key
	}
	return keys
}

// SecretClient is one process's client of the secret store. It implements credential.SecretStore and
// credential.SecretWriter.
type SecretClient struct {
	Store   *SecretStore
	Process Stepper
}

var (
	_ credential.SecretStore  = SecretClient{}
	_ credential.SecretWriter = SecretClient{}
)

func storeUnavailable() error {
	return fault.New(fault.Unavailable, "secret_store_unavailable",
		"The secret store is temporarily unavailable. Retry.")
}

func noVersion() error {
	return fault.New(fault.BadRequest, "secret_value_unavailable", "The secret store has no such version.")
}

func (c SecretClient) call(ctx context.Context, name string, do func() error) error {
	return portError(c.Process.Step(ctx, SecretService, name, do), storeUnavailable)
}

func (c SecretClient) look(ctx context.Context, name string, do func() error) error {
	return portError(c.Process.Look(ctx, SecretService, name, do), storeUnavailable)
}

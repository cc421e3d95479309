package secretmanager

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/grpc/codes"

	"agents.example/controlplane/shared/credential"
)

// first is the version of an agent's first credentials. Adding a version and reading it by number are strongly
// consistent; lists and aliases are not. So all calls agree on version 1, whenever they look, and whichever call added
// it.
const first = 1

// EnsureCredentials implements credential.SecretStore. It makes one call of the service once the credentials exist.
// Errors: Unavailable with one of the codes of this package.
func (s *Store) EnsureCredentials(ctx context.Context, agentID, username string) (credential.Credentials, int64,
	error,
) {
	n, err := credentialsOf(agentID)
	if err != nil {
		return credential.Credentials{}, 0, err
	}
	value, err := s.access(ctx, n, first)
	if code(err) == codes.NotFound {
		if err := s.addFirst(ctx, n, username); err != nil {
			return credential.Credentials{}, 0, translate("add the first credentials", err)
		}
		value, err = s.access(ctx, n, first)
	}
	if err != nil {
		return credential.Credentials{}, 0, translate("read the first credentials", err)
	}
	c, err := parse(n, first, value)
	return c, first, err
}

// addFirst adds credentials if there are none. If another call was faster, the new version is not the first, and
// addFirst destroys it. No caller can have used it.
func (s *Store) addFirst(ctx context.Context, n name, username string) error {
	// As a rule the secret does not exist either. To add a version first would cost a write of the project's quota.
	if err := s.create(ctx, n); err != nil && code(err) != codes.AlreadyExists {
		return err
	}
	version, err := s.generate(ctx, n, username)
	if err != nil || version == first {
		return err
	}
	return s.destroyVersion(ctx, n, version)
}

func parse(n name, version int64, value []byte) (c credential.Credentials, err error) {
	if json.Unmarshal(value, &c) != nil { // its error would quote the value
		err = fmt.Errorf("version %d of secret %s does not hold credentials", version, n.ref())
	}
	return c, err
}

// GetCredentials implements credential.Reader. Errors: as those of Read.
func (s *Store) GetCredentials(ctx context.Context, agentID string, version int64) (credential.Credentials, error) {
	n, err := credentialsOf(agentID)
	if err != nil {
		return credential.Credentials{}, err
	}
	value, err := s.access(ctx, n, version)
	if err != nil {
		return credential.Credentials{}, translateValue("read credentials", err)
	}
	return parse(n, version, value)
}

// AddCredentials implements credential.SecretWriter. Errors: as those of Put.
func (s *Store) AddCredentials(ctx context.Context, agentID, username string) (int64, error) {
	n, err := credentialsOf(agentID)
	if err != nil {
		return 0, err
	}
	version, err := s.generate(ctx, n, username)
	return version, translateAdd("add credentials", err)
}

// generate adds a version with new credentials.
func (s *Store) generate(ctx context.Context, n name, username string) (int64, error) {
	value, err := json.Marshal(credential.Generate(username))
	if err != nil {
		return 0, fmt.Errorf("encode credentials: %w", err)
	}
	return s.addOrCreate(ctx, n, value)
}

package secretmanager

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"agents.example/controlplane/shared/credential"
)

const (
	// current is the alias of the version that holds the credentials in force. Which version that is can't be told from
	// numbers: of two calls that race each may add one, and a call may end between adding a version and anything else.
	// The alias is set by compare-and-set on the secret's etag, so that all calls agree, whenever they look.
	current = "current"
	// appointments is how often EnsureCredentials looks again when others change the secret at the same time. The first
	// that succeeds ends it for all.
	appointments = 5
)

// EnsureCredentials implements credential.SecretStore. It takes 2 calls of the service once the credentials are there.
// Errors: Unavailable with one of the codes of this package.
func (s *Store) EnsureCredentials(ctx context.Context, agentID, username string) (credential.Credentials, int64,
	error,
) {
	n, err := credentialsOf(agentID)
	if err != nil {
		return credential.Credentials{}, 0, err
	}
	version, err := s.appoint(ctx, n, username)
	if err != nil {
		return credential.Credentials{}, 0, translate("find credentials", err)
	}
	value, err := s.access(ctx, n, version)
	if err != nil {
		return credential.Credentials{}, 0, translate("read credentials", err)
	}
	c, err := parse(n, version, value)
	return c, version, err
}

func parse(n name, version int64, value []byte) (c credential.Credentials, err error) {
	if json.Unmarshal(value, &c) != nil { // its error would quote the value
		err = fmt.Errorf("version %d of secret %s does not hold credentials", version, n.id())
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
	return version, translate("add credentials", err)
}

// appoint returns the version in force, and puts one in force where there is none.
func (s *Store) appoint(ctx context.Context, n name, username string) (int64, error) {
	var added int64 // what this call added; never more than one
	for range appointments {
		secret, err := s.getOrCreate(ctx, n)
		if err != nil {
			return 0, err
		}
		if version := secret.GetVersionAliases()[current]; version > 0 {
			return version, s.discard(ctx, n, added, version)
		}
		candidate, err := s.oldest(ctx, n)
		if err != nil {
			return 0, err
		}
		if candidate == 0 {
			if candidate, err = s.generate(ctx, n, username); err != nil {
				return 0, err
			}
			added = candidate
		}
		switch err := s.point(ctx, secret, candidate); code(err) {
		case codes.OK:
			return candidate, s.discard(ctx, n, added, candidate)
		case codes.FailedPrecondition, codes.Aborted:
			// Another call changed the secret: read it again.
		default:
			return 0, err
		}
	}
	return 0, status.Error(codes.Aborted, "others keep changing the secret")
}

// getOrCreate reads the secret, for its aliases and its etag.
func (s *Store) getOrCreate(ctx context.Context, n name) (*secretmanagerpb.Secret, error) {
	secret, err := s.get(ctx, n)
	if code(err) != codes.NotFound {
		return secret, err
	}
	made, err := s.create(ctx, n)
	if code(err) == codes.AlreadyExists {
		return s.get(ctx, n)
	}
	return made, err
}

func (s *Store) get(ctx context.Context, n name) (*secretmanagerpb.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return s.client.GetSecret(ctx, &secretmanagerpb.GetSecretRequest{Name: s.path(n)})
}

// oldest returns the enabled version with the lowest number, or 0: one that a call added whose answer was lost, or that
// ended before it could point to it.
func (s *Store) oldest(ctx context.Context, n name) (int64, error) {
	versions, err := s.versions(ctx, n, "state:ENABLED")
	if err != nil || len(versions) == 0 {
		return 0, err
	}
	return versions[len(versions)-1], nil
}

// generate adds a version with new credentials.
func (s *Store) generate(ctx context.Context, n name, username string) (int64, error) {
	value, err := json.Marshal(credential.Generate(username))
	if err != nil {
		return 0, fmt.Errorf("encode credentials: %w", err)
	}
	return s.add(ctx, n, value)
}

// point puts a version in force, unless the secret has changed since it was read.
func (s *Store) point(ctx context.Context, read *secretmanagerpb.Secret, version int64) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	aliases := map[string]int64{}
	maps.Copy(aliases, read.GetVersionAliases())
	aliases[current] = version
	_, err := s.client.UpdateSecret(ctx, &secretmanagerpb.UpdateSecretRequest{
		Secret:     &secretmanagerpb.Secret{Name: read.GetName(), Etag: read.GetEtag(), VersionAliases: aliases},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"version_aliases"}},
	})
	return err
}

// discard destroys the version that this call added if another version is in force. No caller can have used it, because
// only the version in force is ever read.
func (s *Store) discard(ctx context.Context, n name, added, inForce int64) error {
	if added == 0 || added == inForce {
		return nil
	}
	return s.destroyVersion(ctx, n, added)
}

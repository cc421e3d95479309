package secretmanager

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/shared/parallel"
	"agents.example/controlplane/shared/secret"
)

// destroyRounds is how often Destroy lists secrets: once to find them, once to see that none is left, and once more for
// secrets written in between.
const destroyRounds = 3

// Destroy implements credential.SecretStore. A list may lack new secrets and still name deleted ones, so the secrets of
// the given keys are deleted whether they are listed or not, and Destroy succeeds only after a round in which no listed
// secret existed any more. Errors: Unavailable, also if other calls keep writing secrets.
func (s *Store) Destroy(ctx context.Context, agentID string, keys []string) error {
	names, err := s.namesOf(agentID, keys)
	if err != nil {
		return err
	}
	for range destroyRounds {
		listed, err := s.list(ctx, agentID)
		if err != nil {
			return translate("list secrets", err)
		}
		names = append(names, listed...)
		slices.Sort(names)
		deleted, err := s.deleteAll(ctx, slices.Compact(names))
		if err != nil {
			return translate("delete a secret", err)
		}
		if deleted == 0 {
			return nil
		}
		names = nil
	}
	return translate("delete secrets", status.Error(codes.Aborted, "secrets appear as fast as they are deleted"))
}

// namesOf returns the full names of the secrets of keys, and of the credentials.
func (s *Store) namesOf(agentID string, keys []string) ([]string, error) {
	var names []string
	for _, key := range append([]string{secret.CredentialsKey}, keys...) {
		n, err := secretOf(agentID, key)
		if err != nil {
			return nil, err
		}
		names = append(names, s.path(n))
	}
	return names, nil
}

// list finds the agent's secrets by their labels, in case no record names their keys.
func (s *Store) list(ctx context.Context, agentID string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	secrets := s.client.ListSecrets(ctx, &secretmanagerpb.ListSecretsRequest{
		Parent: s.project, Filter: s.filter(labelAgent, agentID),
	})
	var names []string
	for {
		listed, err := secrets.Next()
		if errors.Is(err, iterator.Done) {
			return names, nil
		}
		if err != nil {
			return nil, err
		}
		// The service names projects by number. One secret must not be deleted under two names at the same time.
		if name := listed.GetName(); s.owns(name, agentID) {
			names = append(names, s.project+name[strings.Index(name, "/secrets/"):])
		}
	}
}

// deleteAll deletes secrets and counts those that existed.
func (s *Store) deleteAll(ctx context.Context, names []string) (deleted int64, err error) {
	var existed atomic.Int64
	errs := parallel.ForEach(names, maxDestructions, func(name string) error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		err := s.client.DeleteSecret(ctx, &secretmanagerpb.DeleteSecretRequest{Name: name})
		if code(err) == codes.NotFound {
			return nil
		}
		existed.Add(1)
		return err
	})
	return existed.Load(), firstError(errs)
}

package secretmanager

import (
	"context"
	"errors"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// destroyRounds is how often Destroy lists secrets: once to find them, once to see that none is left, and once
	// more for secrets written in between.
	destroyRounds = 3
	// maxDeletions bounds the deletions in flight: the quota of writes is a project's, not an agent's.
	maxDeletions = 4
)

// Destroy implements credential.SecretStore. It succeeds only after a list shows that the agent has no secret left.
// Errors: Unavailable, also if other calls keep writing secrets.
func (s *Store) Destroy(ctx context.Context, agentID string) error {
	if err := checkAgent(agentID); err != nil {
		return err
	}
	for range destroyRounds {
		names, err := s.list(ctx, agentID)
		if err != nil {
			return translate("list secrets", err)
		}
		if len(names) == 0 {
			return nil
		}
		if err := s.deleteAll(ctx, names); err != nil {
			return translate("delete a secret", err)
		}
	}
	return translate("delete secrets", status.Error(codes.Aborted, "secrets appear as fast as they are deleted"))
}

// list finds the agent's secrets by their labels, so that those are found, too, whose keys no record names any more.
func (s *Store) list(ctx context.Context, agentID string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	secrets := s.client.ListSecrets(ctx, &secretmanagerpb.ListSecretsRequest{
		Parent: s.project, Filter: "labels." + labelAgent + "=" + agentID + " AND labels." + labelManagedBy + "=" +
			manager,
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
		names = append(names, listed.GetName())
	}
}

func (s *Store) deleteAll(ctx context.Context, names []string) error {
	deletions, ctx := errgroup.WithContext(ctx)
	deletions.SetLimit(maxDeletions)
	for _, name := range names {
		deletions.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			err := s.client.DeleteSecret(ctx, &secretmanagerpb.DeleteSecretRequest{Name: name})
			if code(err) == codes.NotFound {
				return nil
			}
			return err
		})
	}
	return deletions.Wait()
}

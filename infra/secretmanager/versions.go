package secretmanager

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"
)

// LatestVersion implements credential.SecretWriter. Errors: Unavailable with one of the codes of this package.
func (s *Store) LatestVersion(ctx context.Context, agentID, key string) (int64, error) {
	n, err := secretOf(agentID, key)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	// The service lists the newest first, and destroyed versions, too.
	first, err := s.client.ListSecretVersions(ctx,
		&secretmanagerpb.ListSecretVersionsRequest{Parent: s.path(n), PageSize: 1}).Next()
	if errors.Is(err, iterator.Done) || code(err) == codes.NotFound {
		return 0, nil
	}
	if err != nil {
		return 0, translate("find the newest version", err)
	}
	return versionNumber(first.GetName())
}

// VersionsAfter implements credential.SecretWriter. Errors: Unavailable with one of the codes of this package.
func (s *Store) VersionsAfter(ctx context.Context, agentID, key string, after int64) ([]int64, error) {
	n, err := secretOf(agentID, key)
	if err != nil {
		return nil, err
	}
	versions, err := s.versions(ctx, n, "state:ENABLED")
	if err != nil && code(err) != codes.NotFound {
		return nil, translate("list versions", err)
	}
	versions = slices.DeleteFunc(versions, func(number int64) bool { return number <= after })
	slices.Reverse(versions)
	return versions, nil
}

// DestroyVersionsBefore implements credential.SecretStore. The secret itself stays, so that no number stands for two
// values. Errors: Unavailable with one of the codes of this package.
func (s *Store) DestroyVersionsBefore(ctx context.Context, agentID, key string, before int64) error {
	n, err := secretOf(agentID, key)
	if err != nil {
		return err
	}
	if n.kind == kindCredentials {
		if err := s.putInForce(ctx, n, before); err != nil {
			return translate("put credentials in force", err)
		}
	}
	for _, state := range []string{"state:ENABLED", "state:DISABLED"} {
		versions, err := s.versions(ctx, n, state)
		if err != nil && code(err) != codes.NotFound {
			return translate("list versions", err)
		}
		for _, number := range versions {
			if number >= before {
				continue
			}
			// destroyed already
			if err := s.destroyVersion(ctx, n, number); err != nil && code(err) != codes.FailedPrecondition {
				return translate("destroy a version", err)
			}
		}
	}
	return nil
}

// putInForce has the alias point to a version. One that is newer stays: it was put in force by a later call.
func (s *Store) putInForce(ctx context.Context, n name, version int64) error {
	read, err := s.get(ctx, n)
	if err != nil || read.GetVersionAliases()[current] >= version {
		return err
	}
	return s.point(ctx, read, version)
}

// versions lists the numbers of a secret's versions, the highest first.
func (s *Store) versions(ctx context.Context, n name, filter string) ([]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	listed := s.client.ListSecretVersions(ctx,
		&secretmanagerpb.ListSecretVersionsRequest{Parent: s.path(n), Filter: filter})
	var numbers []int64
	for {
		version, err := listed.Next()
		if errors.Is(err, iterator.Done) {
			slices.Sort(numbers)
			slices.Reverse(numbers)
			return numbers, nil
		}
		if err != nil {
			return nil, err
		}
		number, err := versionNumber(version.GetName())
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, number)
	}
}

func (s *Store) destroyVersion(ctx context.Context, n name, version int64) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := s.client.DestroySecretVersion(ctx, &secretmanagerpb.DestroySecretVersionRequest{
		Name: fmt.Sprintf("%s/versions/%d", s.path(n), version),
	})
	return err
}

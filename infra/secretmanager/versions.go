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

// LatestVersion implements credential.Depositary. Errors: Unavailable with one of the codes of this package.
func (v *Store) LatestVersion(ctx context.Context, agentID, key string) (int64, error) {
	n, err := secretOf(agentID, key)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	// The service lists the newest first, and destroyed versions, too.
	first, err := v.client.ListSecretVersions(ctx,
		&secretmanagerpb.ListSecretVersionsRequest{Parent: v.path(n), PageSize: 1}).Next()
	if errors.Is(err, iterator.Done) || code(err) == codes.NotFound {
		return 0, nil
	}
	if err != nil {
		return 0, translate("find the newest version", err)
	}
	return versionNumber(first.GetName())
}

// VersionsAfter implements credential.Depositary. Errors: Unavailable with one of the codes of this package.
func (v *Store) VersionsAfter(ctx context.Context, agentID, key string, after int64) ([]int64, error) {
	n, err := secretOf(agentID, key)
	if err != nil {
		return nil, err
	}
	versions, err := v.versions(ctx, n, "state:ENABLED")
	if err != nil && code(err) != codes.NotFound {
		return nil, translate("list versions", err)
	}
	versions = slices.DeleteFunc(versions, func(number int64) bool { return number <= after })
	slices.Reverse(versions)
	return versions, nil
}

// DestroyVersionsBefore implements credential.Vault. The secret itself stays, so that no number stands for two values.
// Errors: Unavailable with one of the codes of this package.
func (v *Store) DestroyVersionsBefore(ctx context.Context, agentID, key string, before int64) error {
	n, err := secretOf(agentID, key)
	if err != nil {
		return err
	}
	if n.kind == kindCredentials {
		if err := v.putInForce(ctx, n, before); err != nil {
			return translate("put credentials in force", err)
		}
	}
	for _, state := range []string{"state:ENABLED", "state:DISABLED"} {
		versions, err := v.versions(ctx, n, state)
		if err != nil && code(err) != codes.NotFound {
			return translate("list versions", err)
		}
		for _, number := range versions {
			if number >= before {
				continue
			}
			// destroyed already
			if err := v.destroyVersion(ctx, n, number); err != nil && code(err) != codes.FailedPrecondition {
				return translate("destroy a version", err)
			}
		}
	}
	return nil
}

// putInForce has the alias point to a version. One that is newer stays: it was put in force by a later call.
func (v *Store) putInForce(ctx context.Context, n name, version int64) error {
	read, err := v.get(ctx, n)
	if err != nil || read.GetVersionAliases()[current] >= version {
		return err
	}
	return v.point(ctx, read, version)
}

// versions lists the numbers of a secret's versions, the highest first.
func (v *Store) versions(ctx context.Context, n name, filter string) ([]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	listed := v.client.ListSecretVersions(ctx,
		&secretmanagerpb.ListSecretVersionsRequest{Parent: v.path(n), Filter: filter})
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

func (v *Store) destroyVersion(ctx context.Context, n name, version int64) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := v.client.DestroySecretVersion(ctx, &secretmanagerpb.DestroySecretVersionRequest{
		Name: fmt.Sprintf("%s/versions/%d", v.path(n), version),
	})
	return err
}

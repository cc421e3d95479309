package secretmanager

import (
	"context"
	"errors"
	"strconv"
	"time"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"

	"agents.example/controlplane/shared/parallel"
)

// maxDestructions bounds the concurrent calls that destroy: all agents of a project share its quota of writes.
const maxDestructions = 4

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

// VersionCreated implements credential.SecretWriter. Errors: Unavailable with one of the codes of this package.
func (s *Store) VersionCreated(ctx context.Context, agentID, key string, version int64) (time.Time, bool, error) {
	n, err := secretOf(agentID, key)
	if err != nil {
		return time.Time{}, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	found, err := s.client.GetSecretVersion(ctx,
		&secretmanagerpb.GetSecretVersionRequest{Name: s.versionPath(n, version)})
	switch {
	case code(err) == codes.NotFound:
		return time.Time{}, false, nil
	case err != nil:
		return time.Time{}, false, translate("look a version up", err)
	case found.GetState() != secretmanagerpb.SecretVersion_ENABLED:
		return time.Time{}, true, nil
	default:
		return found.GetCreateTime().AsTime(), true, nil
	}
}

// DestroyVersions implements credential.SecretStore. The secret itself stays, so that no number is reused. Errors:
// Unavailable with one of the codes of this package.
func (s *Store) DestroyVersions(ctx context.Context, agentID, key string, from, before int64) error {
	n, err := secretOf(agentID, key)
	if err != nil {
		return err
	}
	var versions []int64
	for version := from; version < before; version++ {
		versions = append(versions, version)
	}
	errs := parallel.ForEach(versions, maxDestructions, func(version int64) error {
		return s.destroyVersion(ctx, n, version)
	})
	return translate("destroy a version", firstError(errs))
}

// firstError returns the first error of a list, or nil.
func firstError(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// destroyVersion destroys a version, which may be destroyed already. A version that was not found may be missing in an
// old state only.
func (s *Store) destroyVersion(ctx context.Context, n name, version int64) error {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := s.client.DestroySecretVersion(limited,
		&secretmanagerpb.DestroySecretVersionRequest{Name: s.versionPath(n, version)})
	switch code(err) {
	case codes.FailedPrecondition:
		return nil
	case codes.NotFound:
		if s.isGone(ctx, n, version) {
			return nil
		}
	default:
	}
	return err
}

// isGone reports whether a version does not exist. A version is gone if it can't be accessed by its number, which is
// strongly consistent. Workers may not access the versions of brokered secrets: for these it looks a second time.
func (s *Store) isGone(ctx context.Context, n name, version int64) bool {
	var err error
	if n.kind == kindBrokered {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		_, err = s.client.GetSecretVersion(ctx, &secretmanagerpb.GetSecretVersionRequest{Name: s.versionPath(n, version)})
	} else {
		_, err = s.access(ctx, n, version)
	}
	return code(err) == codes.NotFound || code(err) == codes.FailedPrecondition
}

// versionPath is the full name of a version.
func (s *Store) versionPath(n name, version int64) string {
	return s.path(n) + "/versions/" + strconv.FormatInt(version, 10)
}

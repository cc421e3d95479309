package secretmanager

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"agents.example/controlplane/shared/provisioning"
)

const (
	// labelDatabase is the identity of the database that has the agent's record; see Options.Database.
	labelDatabase = "database"
	// annotationOrphaned is the time since when the owner of a secret has had no record, in RFC 3339.
	annotationOrphaned = "orphaned-since"
	// listPage is how many secrets one call lists.
	listPage = 1000
)

var _ provisioning.SecretLister = (*Store)(nil)

// SecretOwners implements provisioning.SecretLister. Errors: Unavailable with one of the codes of this package.
func (s *Store) SecretOwners(ctx context.Context) ([]provisioning.SecretOwner, error) {
	if s.database == "" {
		return nil, errors.New("list the owners of secrets: the identity of the database is not configured")
	}
	owners := map[string]*provisioning.SecretOwner{}
	for token := ""; ; {
		listed, next, err := s.listPage(ctx, token)
		if err != nil {
			return nil, translate("list secrets", err)
		}
		for _, found := range listed {
			s.addToOwner(owners, found)
		}
		if token = next; token == "" {
			break
		}
	}
	all := make([]provisioning.SecretOwner, 0, len(owners))
	for _, id := range slices.Sorted(maps.Keys(owners)) {
		all = append(all, *owners[id])
	}
	return all, nil
}

// listPage lists one page of the secrets of all agents of this environment and database.
func (s *Store) listPage(ctx context.Context, token string) (page []*secretmanagerpb.Secret, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	listed := s.client.ListSecrets(ctx, &secretmanagerpb.ListSecretsRequest{
		Parent: s.project,
		Filter: s.filter(labelDatabase, s.database),
	})
	next, err = iterator.NewPager(listed, listPage, token).NextPage(&page)
	return page, next, err
}

// addToOwner adds a secret to those of its owner, unless the secret is not named as this package names secrets.
func (s *Store) addToOwner(owners map[string]*provisioning.SecretOwner, found *secretmanagerpb.Secret) {
	id := found.GetLabels()[labelAgent]
	name := found.GetName()
	if checkAgent(id) != nil || !s.owns(name, id) {
		return
	}
	created, since := found.GetCreateTime().AsTime(), orphanedSince(found)
	o, known := owners[id]
	if !known {
		o = &provisioning.SecretOwner{AgentID: id, CreatedAt: created, OrphanedSince: since}
		owners[id] = o
	}
	if created.After(o.CreatedAt) {
		o.CreatedAt = created
	}
	if since.IsZero() || !o.OrphanedSince.IsZero() && since.After(o.OrphanedSince) {
		o.OrphanedSince = since
	}
	o.Secrets = append(o.Secrets,
		provisioning.ListedSecret{Name: name, Version: found.GetEtag(), OrphanedSince: since})
}

// orphanedSince reads the mark. A mark that can't be read counts as none, so that it is written again.
func orphanedSince(found *secretmanagerpb.Secret) time.Time {
	since, err := time.Parse(time.RFC3339, found.GetAnnotations()[annotationOrphaned])
	if err != nil {
		return time.Time{}
	}
	return since
}

// MarkSecrets implements provisioning.SecretLister. The list and the secret may both be shown as they were hours ago;
// the etag keeps a write that is based on an old state from taking effect. Errors: Unavailable with one of the codes of
// this package.
func (s *Store) MarkSecrets(ctx context.Context, o provisioning.SecretOwner, orphanedSince time.Time) error {
	for _, listed := range o.Secrets {
		if !orphanedSince.IsZero() && !listed.OrphanedSince.IsZero() {
			continue // an older mark stays
		}
		if err := s.markSecret(ctx, listed.Name, orphanedSince); err != nil && code(err) != codes.NotFound {
			return translate("mark a secret", err)
		}
	}
	return nil
}

func (s *Store) markSecret(ctx context.Context, name string, since time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	current, err := s.client.GetSecret(ctx, &secretmanagerpb.GetSecretRequest{Name: name})
	if err != nil {
		return err
	}
	if marked := !orphanedSince(current).IsZero(); marked != since.IsZero() {
		return nil // the list was old: the secret is marked already, or has no mark to clear
	}
	annotations := maps.Clone(current.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	if delete(annotations, annotationOrphaned); !since.IsZero() {
		annotations[annotationOrphaned] = since.UTC().Format(time.RFC3339)
	}
	_, err = s.client.UpdateSecret(ctx, &secretmanagerpb.UpdateSecretRequest{
		Secret:     &secretmanagerpb.Secret{Name: name, Etag: current.GetEtag(), Annotations: annotations},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"annotations"}},
	})
	if code(err) == codes.FailedPrecondition {
		return status.Error(codes.Aborted, "the secret was changed since it was read")
	}
	return err
}

// DeleteSecrets implements provisioning.SecretLister. Errors: Unavailable with one of the codes of this package.
func (s *Store) DeleteSecrets(ctx context.Context, o provisioning.SecretOwner) error {
	for _, listed := range o.Secrets {
		err := s.deleteListed(ctx, listed)
		// FailedPrecondition and Aborted: the mark was written or cleared since the list was made.
		switch code(err) {
		case codes.OK, codes.NotFound, codes.FailedPrecondition, codes.Aborted:
		default:
			return translate("delete a secret", err)
		}
	}
	return nil
}

func (s *Store) deleteListed(ctx context.Context, listed provisioning.ListedSecret) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return s.client.DeleteSecret(ctx, &secretmanagerpb.DeleteSecretRequest{Name: listed.Name, Etag: listed.Version})
}

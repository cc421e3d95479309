package backendtest

import (
	"context"
	"time"

	"agents.example/controlplane/shared/provisioning"
)

// secretLister records the use of a real lister of secrets.
type secretLister struct {
	*uses
	lister provisioning.SecretLister
}

var _ provisioning.SecretLister = secretLister{}

// SecretOwners implements provisioning.SecretLister.
func (s secretLister) SecretOwners(ctx context.Context) ([]provisioning.SecretOwner, error) {
	s.add("SecretLister")
	return s.lister.SecretOwners(ctx)
}

// MarkSecrets implements provisioning.SecretLister.
func (s secretLister) MarkSecrets(ctx context.Context, o provisioning.SecretOwner, since time.Time) error {
	s.add("SecretLister")
	return s.lister.MarkSecrets(ctx, o, since)
}

// DeleteSecrets implements provisioning.SecretLister.
func (s secretLister) DeleteSecrets(ctx context.Context, o provisioning.SecretOwner) error {
	s.add("SecretLister")
	return s.lister.DeleteSecrets(ctx, o)
}

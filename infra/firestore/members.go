package firestore

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	gcp "cloud.google.com/go/firestore"
	"github.com/google/uuid"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/member"
)

// Members implements member.Records.
type Members struct {
	client *Client
}

var _ member.Records = (*Members)(nil)

// Members remembers who was seen in which organization.
func (c *Client) Members() *Members { return &Members{client: c} }

// membershipDocument says that a person was seen in an organization. It is never changed.
type membershipDocument struct {
	OrganizationID string    `firestore:"organization_id"`
	Subject        string    `firestore:"subject"`
	SeenAt         time.Time `firestore:"seen_at"`
}

// membershipID is the id of a membership's document. A subject may have any printable character, also those that no id
// may have.
func membershipID(organizationID, subject string) string {
	return organizationID + "~" + uuid.NewSHA1(uuid.NameSpaceURL, []byte(subject)).String()
}

// membershipPage is how many memberships are read at once.
const membershipPage = 300

// ListMemberIDs implements member.Records.
func (s *Members) ListMemberIDs(ctx context.Context, organizationID string) ([]string, error) {
	q := query{
		collection: membershipCollection, equal: []equality{{"organization_id", organizationID}},
		only:  []string{"subject"},
		order: []order{{gcp.DocumentID, gcp.Asc}}, limit: membershipPage,
	}
	var subjects []string
	for {
		snaps, err := s.client.find(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, snap := range snaps {
			d, err := decode[membershipDocument](snap)
			if err != nil {
				return nil, err
			}
			subjects = append(subjects, d.Subject)
			q.after = []any{snap.Ref.ID}
		}
		if len(snaps) < q.limit {
			return subjects, nil
		}
	}
}

// RecordMember implements member.Records.
func (s *Members) RecordMember(ctx context.Context, organizationID, subject string) error {
	ref, ok := s.client.ref(membershipCollection, membershipID(organizationID, subject))
	if !ok {
		return fmt.Errorf("remember a member: %w", errBadID)
	}
	return s.client.retryUntilDecided(ctx, func(ctx context.Context, _ bool) error {
		snaps, err := s.client.read(ctx, ref)
		if err != nil || snaps[0].Exists() {
			return err
		}
		_, err = s.client.commit(ctx,
			s.client.batch().Create(ref, membershipDocument{organizationID, subject, s.client.now()}))
		return err
	})
}

// leaseDocument says who does what only one may do at a time, and until when.
type leaseDocument struct {
	Holder string    `firestore:"holder"`
	Until  time.Time `firestore:"until"`
}

const (
	// exclusiveTime bounds what is done exclusively, and leaseMargin is how far clocks may be apart: nobody else begins
	// before the end.
	exclusiveTime = 20 * time.Second
	leaseMargin   = 10 * time.Second
)

// WithLock implements member.Records.
func (s *Members) WithLock(ctx context.Context, organizationID string, do func(context.Context) error) error {
	ref, ok := s.client.ref(leaseCollection, "members~"+organizationID)
	if !ok {
		return errNoOrganization()
	}
	holder := uuid.NewString()
	ctx, cancel := context.WithTimeout(ctx, exclusiveTime)
	defer cancel()
	if err := s.acquire(ctx, ref, holder); err != nil {
		return err
	}
	defer s.release(context.WithoutCancel(ctx), ref, holder)
	return do(ctx)
}

// acquire takes the lease, if it is free or over.
func (s *Members) acquire(ctx context.Context, ref *gcp.DocumentRef, holder string) error {
	return s.client.retryUntilDecided(ctx, func(ctx context.Context, _ bool) error {
		snaps, err := s.client.read(ctx, ref)
		if err != nil {
			return err
		}
		mine := leaseDocument{holder, s.client.now().Add(exclusiveTime + leaseMargin)}
		b := s.client.batch()
		if !snaps[0].Exists() {
			_, err = s.client.commit(ctx, b.Create(ref, mine))
			return err
		}
		d, err := decode[leaseDocument](snaps[0])
		switch {
		case err != nil:
			return err
		case d.Holder == holder:
			return nil // the answer to the commit was lost
		case s.client.now().Before(d.Until):
			return fault.New(fault.Conflict, "operation_in_progress",
				"The organization's members are being changed by another request. Try again.")
		}
		_, err = s.client.commit(ctx, b.Update(ref, fields(mine), gcp.LastUpdateTime(snaps[0].UpdateTime)))
		return err
	})
}

// release gives the lease back. Where that fails it ends by itself.
func (s *Members) release(ctx context.Context, ref *gcp.DocumentRef, holder string) {
	err := s.client.retryUntilDecided(ctx, func(ctx context.Context, _ bool) error {
		snaps, err := s.client.read(ctx, ref)
		if err != nil || !snaps[0].Exists() {
			return err
		}
		d, err := decode[leaseDocument](snaps[0])
		if err != nil || d.Holder != holder {
			return err
		}
		_, err = s.client.commit(ctx, s.client.batch().Delete(ref, gcp.LastUpdateTime(snaps[0].UpdateTime)))
		return err
	})
	if err != nil {
		slog.WarnContext(ctx, "a lease was not given back; it ends by itself", "lease",
			strings.TrimPrefix(ref.ID, "members~"), "error", err)
	}
}

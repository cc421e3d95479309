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
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/member"
)

// Members implements member.Records.
type Members struct {
	client *Client
}

var _ member.Records = (*Members)(nil)

// Members is the store of who used the control plane in which organization.
func (c *Client) Members() *Members { return &Members{client: c} }

// membership records that a person used the control plane in an organization.
type membership struct {
	organizationID string
	subject        string
	seenAt         time.Time
	// revocationDue is true while the person's sessions must still be ended.
	revocationDue bool
	// sessionsEnded is when the person's sessions were last ended. Sessions that began before are refused.
	sessionsEnded time.Time
}

func membershipFields(m *membership) fields {
	return fields{
		{"organization_id", text(&m.organizationID)},
		{"subject", text(&m.subject)},
		{"seen_at", timestamp(&m.seenAt)},
		{"revocation_due", flag(&m.revocationDue)},
		{"sessions_ended_at", timestamp(&m.sessionsEnded)},
	}
}

// membershipID is the id of a membership's document. It hashes the subject, because a subject may have characters that
// an id must not have.
func membershipID(organizationID, subject string) string {
	return organizationID + "~" + uuid.NewSHA1(uuid.NameSpaceURL, []byte(subject)).String()
}

// membershipPage is how many memberships are read in one call.
const membershipPage = 300

// ListMembers implements member.Records.
func (s *Members) ListMembers(ctx context.Context, organizationID string) ([]member.Record, error) {
	var records []member.Record
	err := s.client.eachDocument(ctx, query{
		collection: membershipCollection, equal: []equality{{"organization_id", organizationID}},
		only: []string{"subject", "revocation_due", "sessions_ended_at"}, limit: membershipPage,
	}, func(snap *gcp.DocumentSnapshot) error {
		var m membership
		if err := decode(snap, membershipFields(&m)); err != nil {
			reportUnreadable(ctx, snap.Ref.Parent.ID, snap.Ref.ID, err)
			return nil
		}
		records = append(records, member.Record{
			ID: m.subject, RevocationDue: m.revocationDue, SessionsEnded: m.sessionsEnded,
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return records, nil
}

// RecordMember implements member.Records.
func (s *Members) RecordMember(ctx context.Context, organizationID, subject string) error {
	return s.saveMembership(ctx, organizationID, subject, func(*membership) {})
}

// EndSessions implements member.Records.
func (s *Members) EndSessions(ctx context.Context, organizationID, subject string, due bool) error {
	defer s.client.ensured.forget(endsKey(organizationID, subject))
	return s.saveMembership(ctx, organizationID, subject, func(m *membership) {
		m.revocationDue, m.sessionsEnded = due, s.client.now()
	})
}

// saveMembership changes a membership, which may be new. It writes nothing if nothing changes.
func (s *Members) saveMembership(ctx context.Context, organizationID, subject string, change func(*membership)) error {
	ref, ok := s.client.ref(membershipCollection, membershipID(organizationID, subject))
	if !ok {
		return fmt.Errorf("record a member: %w", errBadID)
	}
	return s.client.retryUntilDecided(ctx, func(ctx context.Context, _ bool) error {
		snap, err := s.client.readOne(ctx, ref)
		if err != nil {
			return err
		}
		m := membership{organizationID: organizationID, subject: subject, seenAt: s.client.now()}
		b := s.client.batch()
		if snap.Exists() {
			if err := decode(snap, membershipFields(&m)); err != nil {
				return err
			}
			before := m
			if change(&m); m == before {
				return nil
			}
			b.Update(ref, updates(membershipFields(&m).encode()), gcp.LastUpdateTime(snap.UpdateTime))
		} else {
			change(&m)
			b.Create(ref, membershipFields(&m).encode())
		}
		_, err = s.client.commit(ctx, b)
		return err
	})
}

// commitOfSession commits a change that outlives its caller's rights, such as a new key, unless the caller's session
// was ended. Errors: Unauthenticated, those of commit.
func (ch *change) commitOfSession(ctx context.Context, b *batch) error {
	err := ch.requireSession(ctx, b)
	if err == nil {
		_, err = ch.commit(ctx, b)
	}
	return err
}

// requireSession fails if the caller's session was ended. What a process knows of that may be organization.EndsKnown
// old, so this reads it, and makes the commit fail if it has changed since. Errors: Unauthenticated.
func (ch *change) requireSession(ctx context.Context, b *batch) error {
	caller := ch.call.Caller
	if caller.Type != identity.Session || caller.Subject == "" {
		return nil
	}
	ref, ok := ch.client.ref(membershipCollection, membershipID(caller.OrganizationID, caller.Subject))
	if !ok {
		return fmt.Errorf("read a membership: %w", errBadID)
	}
	snap, err := ch.client.readOne(ctx, ref)
	if err != nil || !snap.Exists() {
		return err
	}
	ended, err := sessionsEnded(snap)
	if err != nil {
		return err
	}
	if identity.EndedBy(caller.IssuedAt, ended) {
		return identity.InvalidToken()
	}
	// It changes nothing but carries the precondition.
	b.Update(ref, []gcp.Update{{Path: "subject", Value: caller.Subject}}, gcp.LastUpdateTime(snap.UpdateTime))
	return nil
}

// lease gives its holder the exclusive right to change an organization's members, until it ends.
type lease struct {
	holder string
	until  time.Time
}

func leaseFields(l *lease) fields {
	return fields{
		{"holder", text(&l.holder)},
		{"until", timestamp(&l.until)},
	}
}

const (
	// exclusiveTime bounds the work under a lease. leaseMargin is how far clocks may differ: no other request begins
	// before the work has ended.
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

// acquire takes the lease, if it is free or has ended.
func (s *Members) acquire(ctx context.Context, ref *gcp.DocumentRef, holder string) error {
	return s.client.retryUntilDecided(ctx, func(ctx context.Context, _ bool) error {
		snap, err := s.client.readOne(ctx, ref)
		if err != nil {
			return err
		}
		own := leaseFields(&lease{holder, s.client.now().Add(exclusiveTime + leaseMargin)}).encode()
		b := s.client.batch()
		if !snap.Exists() {
			_, err = s.client.commit(ctx, b.Create(ref, own))
			return err
		}
		var current lease
		err = decode(snap, leaseFields(&current))
		switch {
		case err != nil:
			return err
		case current.holder == holder:
			return nil // the answer to the commit was lost
		case s.client.now().Before(current.until):
			return fault.New(fault.Conflict, "operation_in_progress",
				"Another request is changing the organization's members. Retry.")
		}
		_, err = s.client.commit(ctx, b.Update(ref, updates(own), gcp.LastUpdateTime(snap.UpdateTime)))
		return err
	})
}

// release deletes the lease. If that fails, the lease ends by time.
func (s *Members) release(ctx context.Context, ref *gcp.DocumentRef, holder string) {
	err := s.client.retryUntilDecided(ctx, func(ctx context.Context, _ bool) error {
		snap, err := s.client.readOne(ctx, ref)
		if err != nil || !snap.Exists() {
			return err
		}
		var current lease
		if err := decode(snap, leaseFields(&current)); err != nil || current.holder != holder {
			return err
		}
		_, err = s.client.commit(ctx, s.client.batch().Delete(ref, gcp.LastUpdateTime(snap.UpdateTime)))
		return err
	})
	if err != nil {
		slog.WarnContext(ctx, "lease could not be released; it will expire", "lease",
			strings.TrimPrefix(ref.ID, "members~"), "error", err)
	}
}

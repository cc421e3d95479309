package firestore

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/audit/seal"
	"agents.example/controlplane/shared/plan"
)

// AuditSeals implements seal.Store. It reads the entries of AuditLog and does not write them.
type AuditSeals struct {
	client *Client
	// page is how many entries are read in one call.
	page int
}

var _ seal.Store = (*AuditSeals)(nil)

const (
	// entryPage bounds the memory of a sealer and of a verification.
	entryPage = 300
	// sealPage is how many seals are read in one call. A full one has about 200 kB.
	sealPage = 4
)

// AuditSeals is the store of the seals of the audit log.
func (c *Client) AuditSeals() *AuditSeals { return &AuditSeals{client: c, page: entryPage} }

// sealFields lists what is stored of a seal. Firestore deletes it some time after expires_at.
func sealFields(s *seal.Seal) fields {
	return fields{
		{"organization_id", text(&s.OrganizationID)},
		{"sequence", number(&s.Sequence)},
		{"sealed_from", optionalTimestamp(&s.SealedFrom)},
		{"sealed_until", timestamp(&s.SealedUntil)},
		{"expires_at", timestamp(&s.ExpiresAt)},
		{"previous_hash", text(&s.PreviousHash)},
		{"previous_expires_at", optionalTimestamp(&s.PreviousExpiresAt)},
		{"count", number(&s.Count)},
		{"root", text(&s.Root)},
		{"hash", text(&s.Hash)},
		{"leaves", array(&s.Leaves, leafFields)},
	}
}

func leafFields(l *seal.Leaf) fields {
	return fields{
		{"id", text(&l.ID)},
		{"created_at", timestamp(&l.CreatedAt)},
		{"expires_at", timestamp(&l.ExpiresAt)},
		{"format", number(&l.Format)},
		{"hash", text(&l.Hash)},
	}
}

func sealOf(snap *gcp.DocumentSnapshot) (seal.Seal, error) {
	s := seal.Seal{Leaves: []seal.Leaf{}}
	err := decode(snap, sealFields(&s))
	return s, err
}

// headFields lists what is stored of the head of an organization's chain of seals. The document's id is that of the
// organization. Firestore never deletes it: after a pause in which all seals expired, the chain goes on.
func headFields(s *seal.Seal) fields {
	return fields{
		{"sequence", number(&s.Sequence)},
		{"hash", text(&s.Hash)},
		{"sealed_until", timestamp(&s.SealedUntil)},
		{"seal_expires_at", timestamp(&s.ExpiresAt)},
	}
}

// sealID is the id of a seal's document. Only one seal of an organization can have a sequence.
func sealID(organizationID string, sequence int64) string {
	return fmt.Sprintf("%s~%d", organizationID, sequence)
}

// Organizations implements seal.Store.
func (s *AuditSeals) Organizations(ctx context.Context, after string, limit int) ([]string, error) {
	var ids []string
	for _, p := range plan.All() {
		if !p.Has(plan.AuditLog) {
			continue
		}
		q := query{
			collection: organizationCollection, equal: []equality{{"plan", string(p.ID)}}, only: []string{},
			order: []order{{gcp.DocumentID, gcp.Asc}}, limit: limit,
		}
		if after != "" {
			q.after = []any{after}
		}
		snaps, err := s.client.runQuery(ctx, q)
		if err != nil {
			return nil, err
		}
		ids = append(ids, documentIDs(snaps)...)
	}
	slices.Sort(ids)
	return ids[:min(len(ids), limit)], nil
}

// Seals implements seal.Log. A seal that can't be decoded is left out, so that a verification finds that it is missing.
func (s *AuditSeals) Seals(ctx context.Context, organizationID string) iter.Seq2[seal.Seal, error] {
	return func(yield func(seal.Seal, error) bool) {
		now := s.client.now()
		for found, err := range s.seals(ctx, organizationID, gcp.Asc, sealPage) {
			if err == nil && !now.Before(found.ExpiresAt) {
				continue
			}
			if !yield(found, err) {
				return
			}
		}
	}
}

// LatestSeals implements seal.Store. It reads one seal in a call, because a sealer rarely needs a second one. Firestore
// deletes those that have expired in any order, so the newest one that is left may be older than the head.
func (s *AuditSeals) LatestSeals(ctx context.Context, organizationID string) iter.Seq2[seal.Seal, error] {
	return func(yield func(seal.Seal, error) bool) {
		sealed := false
		for found, err := range s.seals(ctx, organizationID, gcp.Desc, 1) {
			if err == nil && !sealed && !s.client.now().Before(found.ExpiresAt) {
				head, _, err := s.head(ctx, organizationID)
				if err != nil || head.Sequence > found.Sequence {
					yield(head, err)
					return
				}
			}
			if !yield(found, err) {
				return
			}
			sealed = true
		}
		if sealed {
			return
		}
		if head, _, err := s.head(ctx, organizationID); err != nil || head.Sequence > 0 {
			yield(head, err)
		}
	}
}

// head reads the head of an organization's seals. Its sequence is 0 if there is none.
func (s *AuditSeals) head(ctx context.Context, organizationID string) (seal.Seal, *gcp.DocumentSnapshot, error) {
	ref, ok := s.client.ref(sealHeadCollection, organizationID)
	if !ok {
		return seal.Seal{}, nil, fmt.Errorf("read the head of seals: %w", errBadID)
	}
	head := seal.Seal{OrganizationID: organizationID}
	snap, err := s.client.readOne(ctx, ref)
	if err == nil && snap.Exists() {
		err = decode(snap, headFields(&head))
	}
	return head, snap, err
}

// KeepHead implements seal.Store.
func (s *AuditSeals) KeepHead(ctx context.Context, newest seal.Seal) error {
	return s.client.retryUntilDecided(ctx, func(ctx context.Context, _ bool) error {
		head, snap, err := s.head(ctx, newest.OrganizationID)
		if err != nil || head.Sequence >= newest.Sequence {
			return err
		}
		b, doc := s.client.batch(), headFields(&newest).encode()
		if snap.Exists() {
			b.Update(snap.Ref, updates(doc), gcp.LastUpdateTime(snap.UpdateTime))
		} else {
			b.Create(snap.Ref, doc)
		}
		_, err = s.client.commit(ctx, b)
		return err
	})
}

func (s *AuditSeals) seals(
	ctx context.Context, organizationID string, direction gcp.Direction, limit int,
) iter.Seq2[seal.Seal, error] {
	return pages(ctx, s.client, query{
		collection: sealCollection, equal: []equality{{"organization_id", organizationID}},
		order: []order{{"sequence", direction}, {gcp.DocumentID, direction}}, limit: limit,
	}, sealOf, func(snap *gcp.DocumentSnapshot) []any { return []any{snap.Data()["sequence"], snap.Ref.ID} })
}

// Entries implements seal.Log. An entry that can't be decoded is left out, as AuditLog.List does.
func (s *AuditSeals) Entries(
	ctx context.Context, organizationID string, from, to time.Time,
) iter.Seq2[seal.Entry, error] {
	now := s.client.now()
	found := pages(ctx, s.client, query{
		collection: auditCollection, equal: []equality{{"organization_id", organizationID}}, from: from, before: to,
		order: []order{{"created_at", gcp.Asc}, {gcp.DocumentID, gcp.Asc}}, limit: s.page,
	}, sealedEntryOf, func(snap *gcp.DocumentSnapshot) []any { return []any{snap.Data()["created_at"], snap.Ref.ID} })
	return func(yield func(seal.Entry, error) bool) {
		for e, err := range found {
			if err == nil && !now.Before(e.ExpiresAt) {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// sealedEntryOf makes the entry of a document as a seal sees it.
func sealedEntryOf(snap *gcp.DocumentSnapshot) (seal.Entry, error) {
	e, err := entryOf(snap)
	if err != nil {
		return seal.Entry{}, err
	}
	line, err := json.Marshal(e.Show())
	return seal.Entry{
		ID: e.ID, CreatedAt: e.CreatedAt, ExpiresAt: e.ExpiresAt, WrittenAt: snap.UpdateTime, JSON: line,
	}, err
}

// Create implements seal.Store.
func (s *AuditSeals) Create(ctx context.Context, made seal.Seal) (created bool, err error) {
	ref, ok := s.client.ref(sealCollection, sealID(made.OrganizationID, made.Sequence))
	if !ok {
		return false, fmt.Errorf("store a seal: %w", errBadID)
	}
	err = s.client.retryUntilDecided(ctx, func(ctx context.Context, again bool) error {
		created = false
		if again {
			snap, err := s.client.readOne(ctx, ref)
			if err != nil {
				return err
			}
			if snap.Exists() {
				stored, err := sealOf(snap)
				created = stored.Hash == made.Hash
				return err
			}
		}
		head, _ := s.client.ref(sealHeadCollection, made.OrganizationID)
		_, err := s.client.commit(ctx, s.client.batch().Create(ref, sealFields(&made).encode()).
			Set(head, headFields(&made).encode()))
		created = err == nil
		return err
	})
	return created, err
}

package seal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"agents.example/controlplane/shared/parallel"
)

const (
	// Settling is how long ago an entry must have been written to be sealed. A call writes its entry with its first
	// change, and may add to it for the 11 minutes of audit.CallEntry.Open. Firestore ends every commit after 270
	// seconds. So a sealed entry does not change.
	Settling = 20 * time.Minute
	// Lateness is how long before its first write an entry may have been created. It exceeds the longest call and the
	// longest commit, with room for clocks that differ.
	Lateness = 30 * time.Minute
)

const (
	// organizationPage is the number of organizations listed in one call.
	organizationPage = 200
	// concurrency is the number of organizations sealed concurrently.
	concurrency = 4
	// keepHeadBefore is how long before the newest seal expires its head is stored. A former release did not do so when
	// it stored the seal.
	keepHeadBefore = 7 * 24 * time.Hour
)

// Sealer seals the logs of organizations.
//
// Several may run concurrently, and one may die at any time. Each seal is one new document whose id is made from the
// organization and the sequence, so only one sealer can write the seal after another. The others leave the organization
// to the next run.
//
// A run finds entries by their time. It begins Lateness before the time until which the log is sealed, and skips the
// entries that seals have. So it needs no mark on entries, which would cost another write of each, and no index of the
// times of all organizations, which would limit the writes of all of them together. An organization without new entries
// costs three reads a run: its record, its newest seal, and the query for entries.
//
// The head of a chain is kept when all seals have expired, so the chain goes on after a pause as long as the retention,
// and an anchor that a customer kept still verifies.
type Sealer struct {
	Store Store
	Now   func() time.Time
}

// Run seals what is due. It logs an organization that it can't seal and goes on. Errors: that of ctx when it ends, and
// one that joins the errors of organizations.
func (s *Sealer) Run(ctx context.Context) error {
	var failed []error
	for after := ""; ; {
		ids, err := s.Store.Organizations(ctx, after, organizationPage)
		if err != nil {
			return errors.Join(append(failed, err)...)
		}
		failed = append(failed, parallel.ForEach(ids, concurrency, func(id string) error {
			if err := s.sealOrganization(ctx, id); err != nil {
				return fmt.Errorf("seal the audit log of organization %s: %w", id, err)
			}
			return nil
		})...)
		if len(ids) < organizationPage || ctx.Err() != nil {
			return cmp.Or(errors.Join(failed...), ctx.Err())
		}
		after = ids[len(ids)-1]
	}
}

// sealOrganization seals the settled entries of an organization.
func (s *Sealer) sealOrganization(ctx context.Context, organizationID string) error {
	head, known, err := s.latest(ctx, organizationID)
	if err != nil {
		return err
	}
	if head != nil && len(head.Leaves) > 0 && head.ExpiresAt.Sub(s.Now()) < keepHeadBefore {
		if err := s.Store.KeepHead(ctx, *head); err != nil {
			return err
		}
	}
	until, from := s.Now().Add(-Settling), time.Time{}
	if head != nil {
		if from = head.SealedUntil.Add(-Lateness); !until.After(head.SealedUntil) {
			return nil
		}
	}
	var leaves []Leaf
	again := false // whether the run met entries that are sealed
	for e, err := range s.Store.Entries(ctx, organizationID, from, until) {
		if err != nil {
			return err
		}
		if known[e.ID] {
			again = true
			continue
		}
		if e.WrittenAt.After(until) {
			continue
		}
		leaf, err := NewLeaf(e)
		if err != nil {
			return err
		}
		if leaves = append(leaves, leaf); len(leaves) < MaxLeaves {
			continue
		}
		if head, err = s.create(ctx, organizationID, head, leaves, e.CreatedAt); head == nil || err != nil {
			return err
		}
		leaves = nil
	}
	// A seal without leaves moves the beginning of the next run past entries that would be read in every run.
	if len(leaves) == 0 && (!again || until.Sub(head.SealedUntil) < Lateness) {
		return nil
	}
	_, err = s.create(ctx, organizationID, head, leaves, until)
	return err
}

// latest returns the newest seal, and the ids of the sealed entries that the next run may meet. The seal is nil if
// there is none.
func (s *Sealer) latest(ctx context.Context, organizationID string) (*Seal, map[string]bool, error) {
	var head *Seal
	known := map[string]bool{}
	for found, err := range s.Store.LatestSeals(ctx, organizationID) {
		if err != nil {
			return nil, nil, err
		}
		if head == nil {
			head = &found
		}
		for _, l := range found.Leaves {
			known[l.ID] = true
		}
		if found.SealedFrom == nil || found.SealedFrom.Before(head.SealedUntil.Add(-Lateness)) {
			break
		}
	}
	return head, known, nil
}

// create stores the seal after head and returns it. It returns nil if another sealer was first.
func (s *Sealer) create(
	ctx context.Context, organizationID string, head *Seal, leaves []Leaf, until time.Time,
) (*Seal, error) {
	made, err := New(organizationID, head, leaves, until)
	if err != nil {
		return nil, err
	}
	created, err := s.Store.Create(ctx, made)
	if err != nil || !created {
		return nil, err
	}
	slog.DebugContext(ctx, "audit log sealed", "organization_id", organizationID, "sequence", made.Sequence,
		"entries", made.Count)
	return &made, nil
}

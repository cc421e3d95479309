package firestore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	gcp "cloud.google.com/go/firestore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
)

// Keys implements apikey.Store and apikey.Finder.
type Keys struct {
	client *Client
}

var (
	_ apikey.Store  = (*Keys)(nil)
	_ apikey.Finder = (*Keys)(nil)
)

// Create implements apikey.Store. It fills in OrganizationID. Keys that have expired count until they are needed: at
// the limit they are deleted first.
func (s *Keys) Create(ctx context.Context, k apikey.Key) (apikey.Key, error) {
	ch, err := s.client.begin(ctx)
	if err != nil {
		return apikey.Key{}, err
	}
	ref, ok := s.client.ref(keyCollection, k.Hash)
	if !ok {
		return apikey.Key{}, fmt.Errorf("create an API key: %w", errBadID)
	}
	k.OrganizationID = ch.caller.OrganizationID
	doc := keyDocumentOf(k)
	created := doc.key(k.Hash)
	full := false // and nothing in it has expired
	err = ch.retryUntilDecided(ctx, func(ctx context.Context, again bool) error {
		seen, err := ch.readState(ctx, again, ref)
		if err != nil {
			return err
		}
		if kept, ok, err := ch.answeredKey(seen.kept); ok {
			created = kept
			return err
		}
		switch {
		case seen.committed:
			return nil
		case seen.target.Exists():
			return errors.New("create an API key: a key with this hash exists already")
		}
		org := seen.org
		limits, err := org.Limits()
		if err != nil {
			return fmt.Errorf("create an API key: %w", err)
		}
		switch over := org.Usage.APIKeys >= limits.APIKeys; {
		case over && full:
			return errTooManyKeys(org.Usage.APIKeys, limits.APIKeys)
		case over:
			// Counted again afterwards in any case: another creation may have made room for both.
			if full, err = s.makeRoom(ctx, ch); err != nil {
				return err
			}
			return &undecided{cause: status.Error(codes.Aborted, "expired keys were deleted first")}
		}
		org.Usage.APIKeys++
		b := s.client.batch().Create(ref, doc)
		org.save(b)
		ch.writeEntry(b, org, keyTarget(k), nil)
		ch.keepAnswer(b, seen.kept, doc)
		_, err = ch.commit(ctx, b)
		return err
	})
	if err != nil {
		return apikey.Key{}, err
	}
	return created, nil
}

func errTooManyKeys(current, most int64) error {
	return fault.New(fault.Conflict, "api_key_limit_reached",
		"The organization has %d of at most %d API keys. Revoke one first.", current, most).
		WithMeta(map[string]any{"current": current, "max": most})
}

// makeRoom deletes the organization's expired keys, and tells whether there were none.
func (s *Keys) makeRoom(ctx context.Context, ch change) (none bool, err error) {
	expired, err := s.client.find(ctx, query{
		collection: keyCollection, equal: []equality{{"organization_id", ch.caller.OrganizationID}},
		until: "expires_at", now: ch.at, order: []order{{"expires_at", gcp.Asc}}, limit: maxPurge,
	})
	if err != nil || len(expired) == 0 {
		return err == nil, err
	}
	b := s.client.batch()
	for _, snap := range expired {
		b.Delete(snap.Ref, gcp.Exists)
	}
	b.Update(ch.organization, moveUsage(organization.Usage{APIKeys: -int64(len(expired))}))
	_, err = s.client.commit(ctx, b)
	return false, err
}

// maxPurge is how many expired keys are deleted at once: more than an organization can have.
const maxPurge = 200

// List implements apikey.Store.
func (s *Keys) List(ctx context.Context, p page.Request) (page.Page[apikey.Key], error) {
	return list(ctx, s.client, listing[apikey.Key]{
		query: query{
			collection: keyCollection, equal: []equality{{"organization_id", identity.From(ctx).OrganizationID}},
		},
		// Not the document's id: that is the hash, which a cursor has no business to show.
		tie:    "id",
		decode: keyOf,
		place:  func(k apikey.Key) place { return place{k.CreatedAt, k.ID} },
	}, p)
}

// Revoke implements apikey.Store.
func (s *Keys) Revoke(ctx context.Context, id string) error {
	ch, err := s.client.begin(ctx)
	if err != nil {
		return err
	}
	return ch.retryUntilDecided(ctx, func(ctx context.Context, again bool) error {
		seen, err := ch.readState(ctx, again, nil)
		if err != nil || seen.committed || ch.answered(seen.kept) {
			return err
		}
		found, err := s.client.find(ctx, query{
			collection: keyCollection, limit: 1,
			equal: []equality{{"organization_id", ch.caller.OrganizationID}, {"id", id}},
		})
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return apikey.NotFound()
		}
		k, err := keyOf(found[0])
		if err != nil {
			return err
		}
		// A use of the key that is recorded meanwhile is no reason to begin again.
		b := s.client.batch().Delete(found[0].Ref, gcp.Exists)
		if seen.org.snap.Exists() {
			b.Update(ch.organization, moveUsage(organization.Usage{APIKeys: -1}))
		}
		ch.writeEntry(b, seen.org, keyTarget(k), nil)
		ch.keepAnswer(b, seen.kept, nil)
		_, err = ch.commit(ctx, b)
		return err
	})
}

// Find implements apikey.Finder.
func (s *Keys) Find(ctx context.Context, hash string, also document.Ref) (context.Context, apikey.Key, error) {
	ref, ok := s.client.ref(keyCollection, hash)
	if !ok {
		return ctx, apikey.Key{}, apikey.NotFound()
	}
	refs := []*gcp.DocumentRef{ref}
	if other, ok := s.client.ref(also.Collection, also.ID); ok && also.Collection != "" {
		refs = append(refs, other)
	}
	snaps, err := s.client.read(ctx, refs...)
	if err != nil {
		return ctx, apikey.Key{}, err
	}
	if !snaps[0].Exists() {
		return ctx, apikey.Key{}, apikey.NotFound()
	}
	k, err := keyOf(snaps[0])
	if err != nil {
		return ctx, apikey.Key{}, err
	}
	if len(snaps) > 1 {
		ctx = document.WithFetched(ctx, also, snaps[1])
	}
	return ctx, k, nil
}

// Touch implements apikey.Finder. Close waits for what it began.
func (s *Keys) Touch(ctx context.Context, k apikey.Key) {
	now := s.client.now()
	ref, ok := s.client.ref(keyCollection, k.Hash)
	if !ok || now.Sub(k.LastUsedAt) < apikey.TouchInterval || !s.client.touched.claim(k.ID, now, apikey.TouchInterval) {
		return
	}
	s.client.touches.run(ctx, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, touchTimeout)
		defer cancel()
		// An update never creates, so a key that was revoked meanwhile stays revoked.
		_, err := s.client.commit(ctx, s.client.batch().Update(ref, []gcp.Update{{Path: "last_used_at", Value: now}}))
		if err != nil && codeOf(err) != codes.NotFound {
			slog.WarnContext(ctx, "the use of an API key was not recorded", "api_key_id", k.ID, "error", err)
		}
	})
}

// touchTimeout is short: what Touch writes is worth little, and the end of the process waits for it.
const touchTimeout = 3 * time.Second

func keyTarget(k apikey.Key) audit.Target {
	return audit.Target{Type: "api_key", ID: k.ID, Name: k.Name}
}

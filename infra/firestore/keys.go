package firestore

import (
	"context"
	"errors"
	"fmt"

	gcp "cloud.google.com/go/firestore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
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

// Keys is the store of API keys, for routes and for authentication.
func (c *Client) Keys() *Keys { return &Keys{client: c} }

// keyFields lists what is stored of an API key. The document's id is the key's hash.
func keyFields(k *apikey.Key) fields {
	return fields{
		{"id", text(&k.ID)},
		{"organization_id", text(&k.OrganizationID)},
		{"name", text(&k.Name)},
		{"purpose", text(&k.Purpose)},
		{"role", text(&k.Role)},
		{"prefix", text(&k.Prefix)},
		{"pepper", text(&k.Pepper)},
		{"created_by", text(&k.CreatedBy)},
		{"ancestors", texts(&k.Ancestors)},
		{"created_at", timestamp(&k.CreatedAt)},
		{"last_used_at", timestamp(&k.LastUsedAt)},
		{"expires_at", timestamp(&k.ExpiresAt)},
	}
}

// decodeKey makes the key with a hash of a document. Documents of earlier releases have no role.
func decodeKey(hash string, find lookup) (apikey.Key, error) {
	k := apikey.Key{Hash: hash, Role: apikey.DefaultRole}
	if _, err := keyFields(&k).decode(find); err != nil {
		return k, fmt.Errorf("decode the API key %s: %w", k.ID, err)
	}
	return k, nil
}

// keyOf makes the key of a document that exists.
func keyOf(snap *gcp.DocumentSnapshot) (apikey.Key, error) {
	return decodeKey(snap.Ref.ID, inSnapshot(snap))
}

func keyTarget(k apikey.Key) audit.Target {
	return audit.Target{Type: "api_key", ID: k.ID, Name: k.Name}
}

// Create implements apikey.Store. It fills in OrganizationID. Expired keys count towards the limit until it is reached:
// then Create deletes them first.
func (s *Keys) Create(ctx context.Context, k apikey.Key) (apikey.Key, error) {
	ch, err := s.client.beginChange(ctx)
	if err != nil {
		return apikey.Key{}, err
	}
	ref, ok := s.client.ref(keyCollection, k.Hash)
	if !ok {
		return apikey.Key{}, fmt.Errorf("create an API key: %w", errBadID)
	}
	k.OrganizationID = ch.call.Caller.OrganizationID
	var created apikey.Key
	noneExpired := false
	err = ch.retryUntilDecided(ctx, func(ctx context.Context, again bool) error {
		state, err := ch.readState(ctx, again, ref)
		if err != nil {
			return err
		}
		if answered, ok, err := ch.replayKey(state.answer); ok {
			created = answered
			return err
		}
		switch {
		case state.committed != "":
			return nil
		case state.target.Exists():
			return errors.New("create an API key: a key with this hash exists already")
		}
		org := state.org
		limits, err := org.Limits()
		if err != nil {
			return fmt.Errorf("create an API key: %w", err)
		}
		switch full := org.Usage.APIKeys >= limits.APIKeys; {
		case full && noneExpired:
			return errTooManyKeys(org.Usage.APIKeys, limits.APIKeys)
		case full:
			// Count again in any case: another request may have deleted expired keys, too.
			if noneExpired, err = s.deleteExpired(ctx, ch); err != nil {
				return err
			}
			return &undecided{cause: status.Error(codes.Aborted, "expired keys were deleted first")}
		}
		bounded, err := s.boundByCreator(ctx, ch, k)
		if err != nil {
			return err
		}
		org.Usage.APIKeys++
		doc := keyFields(&bounded).encode()
		if created, err = decodeKey(k.Hash, inMap(doc)); err != nil {
			return err
		}
		b := s.client.batch().Create(ref, doc)
		org.saveUsage(b)
		ch.writeEvents(b, "", apikey.CreatedEvents(bounded))
		ch.writeEntry(b, org, keyTarget(k), []audit.Change{{Field: "role", New: string(created.Role)}})
		ch.saveAnswer(b, state.answer, doc)
		return ch.commitOfSession(ctx, b)
	})
	return created, err
}

func errTooManyKeys(current, most int64) error {
	return fault.New(fault.Conflict, "api_key_limit_reached",
		"The organization has %d API keys and its plan allows %d. Revoke a key first.", current, most).
		WithMeta(map[string]any{"current": current, "max": most})
}

// maxExpired is how many expired keys are deleted in one commit: more than an organization can have.
const maxExpired = 200

// deleteExpired deletes the organization's expired keys. none is true when there are none.
func (s *Keys) deleteExpired(ctx context.Context, ch *change) (none bool, err error) {
	expired, err := s.client.runQuery(ctx, query{
		collection: keyCollection, equal: []equality{{"organization_id", ch.call.Caller.OrganizationID}},
		until: "expires_at", now: ch.at, order: []order{{"expires_at", gcp.Asc}}, limit: maxExpired,
	})
	if err != nil || len(expired) == 0 {
		return err == nil, err
	}
	b := s.client.batch()
	for _, snap := range expired {
		b.Delete(snap.Ref, gcp.Exists)
	}
	b.Update(ch.organization, incrementUsage(organization.Usage{APIKeys: -int64(len(expired))}))
	_, err = s.client.commit(ctx, b)
	return false, err
}

// List implements apikey.Store.
func (s *Keys) List(ctx context.Context, p page.Request) (page.Page[apikey.Key], error) {
	return listPage(ctx, s.client, listing[apikey.Key]{
		query: query{
			collection: keyCollection, equal: []equality{{"organization_id", call.From(ctx).Caller.OrganizationID}},
		},
		// The document's id is the hash, which a cursor must not show.
		tieBreaker: "id",
		decode:     keyOf,
		position:   func(k apikey.Key) position { return position{k.CreatedAt, k.ID} },
	}, p)
}

// Revoke implements apikey.Store.
func (s *Keys) Revoke(ctx context.Context, id string) error {
	ch, err := s.client.beginChange(ctx)
	if err != nil {
		return err
	}
	return ch.retryUntilDecided(ctx, func(ctx context.Context, again bool) error {
		state, err := ch.readState(ctx, again, nil)
		if err != nil || state.committed != "" || ch.replays(state.answer) {
			return err
		}
		found, err := s.query(ctx, ch, id)
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
		// The precondition ignores uses of the key that are recorded in between.
		b := s.client.batch().Delete(found[0].Ref, gcp.Exists)
		if state.org.snap.Exists() {
			b.Update(ch.organization, incrementUsage(organization.Usage{APIKeys: -1}))
		}
		ch.writeEvents(b, "", apikey.RevokedEvents(k))
		ch.writeEntry(b, state.org, keyTarget(k), nil)
		ch.saveAnswer(b, state.answer, nil)
		_, err = ch.commit(ctx, b)
		return err
	})
}

// Find implements apikey.Finder.
func (s *Keys) Find(ctx context.Context, hash string, also document.Ref, others ...string) (apikey.Key,
	*document.Fetched, error,
) {
	ref, ok := s.client.ref(keyCollection, hash)
	if !ok {
		return apikey.Key{}, nil, apikey.NotFound()
	}
	refs := []*gcp.DocumentRef{ref}
	if other, ok := s.client.ref(also.Collection, also.ID); ok && also.Collection != "" {
		refs = append(refs, other)
	}
	snaps, err := s.client.read(ctx, refs...)
	if err != nil {
		return apikey.Key{}, nil, err
	}
	found := snaps[0]
	if !found.Exists() {
		if found, err = s.findAny(ctx, ref, others); err != nil {
			return apikey.Key{}, nil, err
		}
	}
	k, err := keyOf(found)
	if err != nil {
		return apikey.Key{}, nil, err
	}
	if len(snaps) == 1 {
		return k, nil, nil
	}
	return k, document.NewFetched(also, ownerOf(snaps[1]), snaps[1]), nil
}

// ownerOf returns the organization of a document, without decoding the rest. It is empty for a document that does not
// exist.
func ownerOf(snap *gcp.DocumentSnapshot) string {
	value, err := snap.DataAt("organization_id")
	if err != nil {
		return ""
	}
	owner, _ := value.(string)
	return owner
}

package firestore

import (
	"context"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/identity"
)

// boundByCreator returns the new key with the bounds of the key that creates it, if a key does. The caller must have
// read the organization before, and its commit must fail if the organization has changed since: a revocation changes
// it, so a key that is revoked in between creates none. Errors: Unauthenticated if the creator is revoked; those of
// apikey.Key.MadeWith.
func (s *Keys) boundByCreator(ctx context.Context, ch *change, k apikey.Key) (apikey.Key, error) {
	if ch.call.Caller.Type != identity.APIKey {
		return k, nil
	}
	found, err := s.query(ctx, ch, ch.call.Caller.ID)
	if err != nil {
		return k, err
	}
	if len(found) == 0 {
		return k, identity.InvalidToken()
	}
	creator, err := keyOf(found[0])
	if err != nil {
		return k, err
	}
	return k.MadeWith(creator)
}

// query finds the key with an id in the organization of a change.
func (s *Keys) query(ctx context.Context, ch *change, id string) ([]*gcp.DocumentSnapshot, error) {
	return s.client.runQuery(ctx, query{
		collection: keyCollection, limit: 1,
		equal: []equality{{"organization_id", ch.call.Caller.OrganizationID}, {"id", id}},
	})
}

// RevokeWithDescendants implements apikey.Store. Its commit fails if the organization has changed since it was read, so
// that no descendant is created in between.
func (s *Keys) RevokeWithDescendants(ctx context.Context, id string) error {
	ch, err := s.client.beginChange(ctx)
	if err != nil {
		return err
	}
	return ch.retryUntilDecided(ctx, func(ctx context.Context, again bool) error {
		state, err := ch.readState(ctx, again, nil)
		if err != nil || state.committed != "" || ch.replays(state.answer) {
			return err
		}
		keys, err := s.all(ctx, ch)
		if err != nil {
			return err
		}
		revoked := apikey.WithDescendants(keys, id)
		if len(revoked) == 0 {
			return apikey.NotFound()
		}
		b, target, changes := s.client.batch(), audit.Target{Type: "api_key", ID: id}, []audit.Change(nil)
		for _, k := range revoked {
			ref, ok := s.client.ref(keyCollection, k.Hash)
			if !ok {
				return errBadID
			}
			b.Delete(ref, gcp.Exists) // a key that is moved in between has another document
			if k.ID == id {
				target = keyTarget(k)
			} else {
				changes = append(changes, audit.Change{Field: "descendants", Old: k.ID})
			}
		}
		if state.org.snap.Exists() {
			state.org.Usage.APIKeys -= int64(len(revoked))
			state.org.saveUsage(b)
		}
		ch.writeEvents(b, "", apikey.RevokedEvents(revoked...))
		ch.writeEntry(b, state.org, target, changes)
		ch.saveAnswer(b, state.answer, nil)
		_, err = ch.commit(ctx, b)
		return err
	})
}

// keyPage is how many keys are read in one call: more than an organization can have. So one query reads all of them,
// and a key that is moved between two pages is not missed.
const keyPage = 200

// all reads the keys of the organization of a change. One that can't be decoded, as after a roll-back, has what can be
// decoded of it: it must not keep the others from being revoked.
func (s *Keys) all(ctx context.Context, ch *change) ([]apikey.Key, error) {
	var keys []apikey.Key
	err := s.client.eachDocument(ctx, query{
		collection: keyCollection, limit: keyPage,
		equal: []equality{{"organization_id", ch.call.Caller.OrganizationID}},
	}, func(snap *gcp.DocumentSnapshot) error {
		k, err := keyOf(snap)
		if err != nil {
			reportUnreadable(ctx, keyCollection, k.ID, err)
		}
		keys = append(keys, k)
		return nil
	})
	return keys, err
}

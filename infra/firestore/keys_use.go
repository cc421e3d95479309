package firestore

import (
	"context"
	"log/slog"
	"time"

	gcp "cloud.google.com/go/firestore"
	"google.golang.org/grpc/codes"

	"agents.example/controlplane/shared/apikey"
)

// findAny reads the document of the key that has no document at first, or did not when it was read, but may have one
// under another hash. It reads first again, in the same call: between two calls the key may be moved from one of the
// others to first.
func (s *Keys) findAny(ctx context.Context, first *gcp.DocumentRef, others []string) (*gcp.DocumentSnapshot, error) {
	if len(others) == 0 {
		return nil, apikey.NotFound()
	}
	refs := []*gcp.DocumentRef{first}
	for _, hash := range others {
		if ref, ok := s.client.ref(keyCollection, hash); ok {
			refs = append(refs, ref)
		}
	}
	snaps, err := s.client.read(ctx, refs...)
	if err != nil {
		return nil, err
	}
	for _, snap := range snaps {
		if snap.Exists() {
			return snap, nil
		}
	}
	return nil, apikey.NotFound()
}

// Touch implements apikey.Finder. It writes in the background; Flush and Close wait for it.
func (s *Keys) Touch(ctx context.Context, k apikey.Key) {
	now := s.client.now()
	if now.Sub(k.LastUsedAt) < apikey.TouchInterval || !s.client.claimed.claim(k.ID, now, apikey.TouchInterval) {
		return
	}
	ref, ok := s.client.ref(keyCollection, k.Hash)
	if !ok {
		return
	}
	s.client.background.run(ctx, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, touchTimeout)
		defer cancel()
		// An update never creates a document, so a revoked key stays revoked.
		_, err := s.client.commit(ctx, s.client.batch().Update(ref, []gcp.Update{{Path: "last_used_at", Value: now}}))
		if err != nil && codeOf(err) != codes.NotFound {
			slog.WarnContext(ctx, "last use of an API key could not be recorded", "api_key_id", k.ID, "error", err)
		}
	})
}

// touchTimeout is short, because the process waits for such writes before it ends, and losing one does little harm.
const touchTimeout = 3 * time.Second

// Move implements apikey.Finder. It writes in the background, as Touch does. One commit deletes the document of the
// former hash and creates that of the new one, so at any time the key has exactly one document: it is found, listed and
// counted once. The commit fails if the key was revoked, used or moved since it was read; then the next use moves it.
func (s *Keys) Move(ctx context.Context, from string, to apikey.Key) {
	now := s.client.now()
	if !s.client.claimed.claim("move "+to.ID, now, apikey.TouchInterval) {
		return
	}
	former, ok := s.client.ref(keyCollection, from)
	present, okToo := s.client.ref(keyCollection, to.Hash)
	if !ok || !okToo {
		return
	}
	s.client.background.run(ctx, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, touchTimeout)
		defer cancel()
		snap, err := s.client.readOne(ctx, former)
		if err == nil && !snap.Exists() {
			return
		}
		if err == nil {
			doc := snap.Data() // with the fields of later releases
			doc["pepper"], doc["last_used_at"] = to.Pepper, now
			_, err = s.client.commit(ctx, s.client.batch().
				Delete(former, gcp.LastUpdateTime(snap.UpdateTime)).Create(present, doc))
		}
		if err != nil {
			slog.WarnContext(ctx, "API key could not be moved to the present pepper; its next use repeats that",
				"api_key_id", to.ID, "error", err)
		}
	})
}

// EachKey visits the keys of all organizations. A key that is moved in between is visited once, twice or not at all;
// one that stays where it is, once.
func (s *Keys) EachKey(ctx context.Context, visit func(apikey.Key) error) error {
	return s.client.eachDocument(ctx, query{collection: keyCollection, limit: keyPage},
		func(snap *gcp.DocumentSnapshot) error {
			k, err := keyOf(snap)
			if err != nil {
				return err
			}
			return visit(k)
		})
}

package firestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	gcp "cloud.google.com/go/firestore"
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/idempotency"
)

// Answers implements idempotency.Answers. It keeps its answers next to those that changes commit, so a key that one
// kind of request used is refused for the other kind.
type Answers struct {
	client *Client
}

var _ idempotency.Answers = (*Answers)(nil)

// Answers is the store of the answers to requests with an idempotency key.
func (c *Client) Answers() *Answers { return &Answers{client: c} }

// keptAnswer is the record of an answer that Keep stored.
type keptAnswer struct{ body string }

func keptAnswerFields(k *keptAnswer) fields { return fields{{"body", text(&k.body)}} }

// Kept implements idempotency.Answers.
func (s *Answers) Kept(ctx context.Context, a *idempotency.Attempt) (bool, error) {
	snap, err := s.client.readOne(ctx, s.client.answerRef(a))
	if err != nil {
		return false, err
	}
	kept, valid, err := readAnswer(snap, s.client.now(), a)
	return valid && kept.claimedUntil.IsZero(), err
}

// Claim implements idempotency.Answers.
func (s *Answers) Claim(
	ctx context.Context, a *idempotency.Attempt, lasts time.Duration,
) (claim idempotency.Claim, err error) {
	ref, id := s.client.answerRef(a), uuid.NewString()
	err = s.client.retryUntilDecided(ctx, func(ctx context.Context, _ bool) error {
		snap, err := s.client.readOne(ctx, ref)
		if err != nil {
			return err
		}
		now := s.client.now()
		found, valid, err := readAnswer(snap, now, a)
		switch {
		case err != nil:
			return err
		case valid && found.changeID == id: // an earlier commit of this call, whose answer was lost
			claim.Version = versionOf(snap.UpdateTime)
			return nil
		case valid && now.Before(found.claimedUntil):
			return idempotency.InProgress()
		case valid && found.record != nil:
			var kept keptAnswer
			claim.Kept = true
			_, err := keptAnswerFields(&kept).decode(inMap(found.record))
			claim.Answer = []byte(kept.body)
			return err
		}
		doc := answerFields(&answer{
			organizationID: call.From(ctx).Caller.OrganizationID, fingerprint: a.Fingerprint, changeID: id,
			createdAt: now, expiresAt: now.Add(idempotency.Retention), claimedUntil: now.Add(lasts),
		}).encode()
		b := s.client.batch()
		if snap.Exists() {
			b.Update(ref, updates(doc), gcp.LastUpdateTime(snap.UpdateTime))
		} else {
			b.Create(ref, doc)
		}
		claim.Version, err = s.client.commit(ctx, b)
		return err
	})
	return claim, err
}

// Keep implements idempotency.Answers.
func (s *Answers) Keep(ctx context.Context, a *idempotency.Attempt, c idempotency.Claim, body []byte) error {
	var record map[string]any
	if !a.DiscardsAnswer() {
		record = keptAnswerFields(&keptAnswer{string(body)}).encode()
	}
	return s.endClaim(ctx, a, c, func(b *batch, ref *gcp.DocumentRef, unchanged gcp.Precondition) {
		b.Update(ref, []gcp.Update{{Path: "answer", Value: record}, {Path: "claimed_until", Value: nil}}, unchanged)
	})
}

// Release implements idempotency.Answers.
func (s *Answers) Release(ctx context.Context, a *idempotency.Attempt, c idempotency.Claim) error {
	return s.endClaim(ctx, a, c, func(b *batch, ref *gcp.DocumentRef, unchanged gcp.Precondition) {
		b.Delete(ref, unchanged)
	})
}

// endClaim commits a write of the answer's document, unless the claim has ended. A commit whose answer is lost is
// repeated: if it was carried out, the document is no longer the claim's.
func (s *Answers) endClaim(
	ctx context.Context, a *idempotency.Attempt, c idempotency.Claim,
	write func(*batch, *gcp.DocumentRef, gcp.Precondition),
) error {
	ref := s.client.answerRef(a)
	claimed, err := updateTimeOf(c.Version)
	if err != nil {
		return fmt.Errorf("end the claim of an idempotency key: %w", err)
	}
	return s.client.retryUntilDecided(ctx, func(ctx context.Context, _ bool) error {
		b := s.client.batch()
		write(b, ref, gcp.LastUpdateTime(claimed))
		_, err := s.client.commit(ctx, b)
		switch codeOf(errors.Unwrap(err)) {
		case codes.FailedPrecondition, codes.NotFound:
			return nil
		default:
			return err
		}
	})
}

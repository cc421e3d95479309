package firestore

import (
	"context"
	"log/slog"
	"math"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/logevent"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/ratelimit"
	"agents.example/controlplane/shared/secretwrite"
)

// SecretBudget implements secretwrite.Budget and provisioning.CleanupBudget. The limit of an organization is part of
// its document, and the limits of the service are separate documents. One commit writes both limits that a request is
// charged to, on the condition that neither changed since it was read: so they hold exactly, however many instances
// charge them.
//
// All charges write the document of the service, so concurrent ones have to try again. The limit itself bounds how
// often that happens: each charge that succeeds takes at least one token of it.
type SecretBudget struct {
	client *Client
}

var (
	_ secretwrite.Budget         = (*SecretBudget)(nil)
	_ provisioning.CleanupBudget = (*SecretBudget)(nil)
)

// SecretBudget is the store of what requests spend of the secret store's quota.
func (c *Client) SecretBudget() *SecretBudget { return &SecretBudget{client: c} }

// The ids of the documents with the limits of all requests together, and of all workers that destroy versions.
const (
	requestBudget = "secret_requests"
	cleanupBudget = "secret_cleanup"
)

// budget is a rate limit of the whole service.
type budget struct{ fullAt time.Time }

func budgetFields(b *budget) fields { return fields{{"full_at", timestamp(&b.fullAt)}} }

// Charge implements secretwrite.Budget. A lost answer may charge twice.
func (s *SecretBudget) Charge(ctx context.Context, c secretwrite.Cost) (kept bool, err error) {
	ch, err := s.client.beginCharge(ctx)
	if err != nil {
		return false, err
	}
	refs := []*gcp.DocumentRef{ch.organization, s.client.requestBudget()}
	if ch.answer != nil {
		refs = append(refs, ch.answer)
	}
	err = s.client.retryUntilDecided(ctx, func(ctx context.Context, _ bool) error {
		snaps, err := s.client.read(ctx, refs...)
		if err != nil {
			return err
		}
		if ch.answer != nil {
			if _, kept, err = readAnswer(snaps[2], ch.at, ch.call.Attempt); kept || err != nil {
				return err
			}
		}
		org, err := organizationStateOf(snaps[0], ch.at)
		if err != nil {
			return err
		}
		b := s.client.batch()
		if err := ch.chargeSecrets(ctx, b, &org, snaps[1], c); err != nil {
			return err
		}
		if ch.call.Rehearsal != nil {
			return nil
		}
		org.save(b, []gcp.Update{setSecretWrites(org.Organization)})
		_, err = s.client.commit(ctx, b)
		return err
	})
	return kept, err
}

// TakeCleanup implements provisioning.CleanupBudget. A lost answer may take twice.
func (s *SecretBudget) TakeCleanup(ctx context.Context, calls int64) error {
	if s.client.secretCleanup.Quota <= 0 || calls <= 0 {
		return nil
	}
	ref, _ := s.client.ref(budgetCollection, cleanupBudget)
	return s.client.retryUntilDecided(ctx, func(ctx context.Context, _ bool) error {
		snap, err := s.client.readOne(ctx, ref)
		if err != nil {
			return err
		}
		b := s.client.batch()
		d, err := takeBudget(b, snap, s.client.secretCleanup, int(min(calls, math.MaxInt32)), s.client.now())
		switch {
		case err != nil:
			return err
		case !d.Allowed:
			return secretwrite.QuotaExceeded(d.Reset)
		}
		_, err = s.client.commit(ctx, b)
		return err
	})
}

// takeBudget takes calls from a limit of the whole service. It adds the limit's state to a batch if it allows them.
func takeBudget(b *batch, snap *gcp.DocumentSnapshot, l ratelimit.Limit, calls int, now time.Time) (ratelimit.Decision,
	error,
) {
	if l.Quota <= 0 || calls <= 0 {
		return ratelimit.Decision{Allowed: true}, nil
	}
	var stored budget
	if snap.Exists() {
		if err := decode(snap, budgetFields(&stored)); err != nil {
			return ratelimit.Decision{}, err
		}
	}
	var d ratelimit.Decision
	if stored.fullAt, d = l.TakeStored(serviceBudget, calls, stored.fullAt, now); !d.Allowed {
		return d, nil
	}
	doc := budgetFields(&stored).encode()
	if snap.Exists() {
		b.Update(snap.Ref, updates(doc), gcp.LastUpdateTime(snap.UpdateTime))
	} else {
		b.Create(snap.Ref, doc)
	}
	return d, nil
}

// requestBudget names the document with the limit of all requests together.
func (c *Client) requestBudget() *gcp.DocumentRef {
	ref, _ := c.ref(budgetCollection, requestBudget)
	return ref
}

// beginCharge begins a change that only charges: it claims no audit entry, and no later change is part of it.
func (c *Client) beginCharge(ctx context.Context) (*change, error) {
	ch, err := c.beginUnaudited(ctx)
	if err != nil {
		return nil, err
	}
	if attempt := ch.call.Attempt; ch.call.Rehearsal == nil && attempt.Covers() && !attempt.Amending() {
		ch.answer = c.answerRef(attempt)
	}
	return ch, nil
}

// chargeSecrets counts secret writes against the limits of the organization and of the service. It adds the state of
// the latter to a batch, which must also save the organization's. Errors: RateLimited, Unavailable.
func (ch *change) chargeSecrets(ctx context.Context, b *batch, org *organizationState, service *gcp.DocumentSnapshot,
	c secretwrite.Cost,
) error {
	if err := org.CountSecretWrites(ch.client.secretWrites, c.Secrets, ch.at); err != nil {
		return err
	}
	d, err := takeBudget(b, service, ch.client.secretRequests, c.Calls, ch.at)
	switch {
	case err != nil:
		return err
	case !d.Allowed:
		slog.WarnContext(ctx, "limit of all requests to the secret store reached", logevent.Key,
			logevent.SecretBudgetExhausted, "organization_id", org.ID, "calls", c.Calls, "wait_seconds",
			d.Reset.Seconds())
		return secretwrite.QuotaExceeded(d.Reset)
	}
	return nil
}

// serviceBudget is the class of the limits of the whole service. Clients do not see it.
const serviceBudget ratelimit.Class = "secret_store"

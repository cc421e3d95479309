package firestore

import (
	"context"
	"log/slog"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/logevent"
	"agents.example/controlplane/shared/ratelimit"
	"agents.example/controlplane/shared/secretwrite"
)

// SecretBudget implements secretwrite.Budget. The limit of an organization is part of its document, and the limit of
// the service is a separate document. One commit writes both, on the condition that neither changed since it was
// read: so both limits hold exactly, however many instances charge them.
//
// All charges write the document of the service, so concurrent ones have to try again. The limit itself bounds how
// often that happens: each charge that succeeds takes at least one token of it.
type SecretBudget struct {
	client *Client
}

var _ secretwrite.Budget = (*SecretBudget)(nil)

// SecretBudget is the store of what requests spend of the secret store's quota.
func (c *Client) SecretBudget() *SecretBudget { return &SecretBudget{client: c} }

// requestBudget is the id of the document with the limit of all requests together.
const requestBudget = "secret_requests"

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
			if _, kept, err = readAnswer(snaps[2], ch.at, ch.attempt); kept || err != nil {
				return err
			}
		}
		org, err := ch.organizationStateOf(snaps[0])
		if err != nil {
			return err
		}
		b := s.client.batch()
		if err := ch.chargeSecrets(ctx, b, &org, snaps[1], c); err != nil {
			return err
		}
		org.save(b, []gcp.Update{setSecretWrites(org.Organization)})
		_, err = s.client.commit(ctx, b)
		return err
	})
	return kept, err
}

// requestBudget names the document with the limit of all requests together.
func (c *Client) requestBudget() *gcp.DocumentRef {
	ref, _ := c.ref(budgetCollection, requestBudget)
	return ref
}

// beginCharge begins a change that only charges: it claims no audit entry, and no later change is part of it.
func (c *Client) beginCharge(ctx context.Context) (change, error) {
	ch, err := c.beginUnaudited(ctx)
	if err != nil {
		return change{}, err
	}
	if a := idempotency.From(ctx); a != nil && !a.Used() {
		err = ch.useAttempt(a)
	}
	return ch, err
}

// chargeSecrets counts secret writes against the limits of the organization and of the service. It adds the state of
// the latter to a batch, which must also save the organization's. Errors: RateLimited, Unavailable.
func (ch change) chargeSecrets(ctx context.Context, b *batch, org *organizationState, service *gcp.DocumentSnapshot,
	c secretwrite.Cost,
) error {
	if err := org.CountSecretWrites(ch.client.secretWrites, c.Secrets, ch.at); err != nil {
		return err
	}
	var stored budget
	if service.Exists() {
		if err := decode(service, budgetFields(&stored)); err != nil {
			return err
		}
	}
	var d ratelimit.Decision
	stored.fullAt, d = ch.client.secretRequests.TakeStored(serviceRequests, c.Calls, stored.fullAt, ch.at)
	if !d.Allowed {
		slog.WarnContext(ctx, "limit of all requests to the secret store reached", logevent.Key,
			logevent.SecretBudgetExhausted, "organization_id", org.ID, "calls", c.Calls, "wait_seconds",
			d.Reset.Seconds())
		return secretwrite.QuotaExceeded(d.Reset)
	}
	doc := budgetFields(&stored).encode()
	if service.Exists() {
		b.Update(service.Ref, updates(doc), gcp.LastUpdateTime(service.UpdateTime))
	} else {
		b.Create(service.Ref, doc)
	}
	return nil
}

// serviceRequests is the class of the limit of all requests together. Clients do not see it.
const serviceRequests ratelimit.Class = "secret_requests"

package firestore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	gcp "cloud.google.com/go/firestore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/document"
)

// Accounts implements billing.Store. An account is part of its organization's document: a change of an agent reads it
// without another call, and its commit fails if the account changed since.
type Accounts struct {
	client *Client
}

var _ billing.Store = (*Accounts)(nil)

// Accounts is the store of accounts.
func (c *Client) Accounts() *Accounts { return &Accounts{client: c} }

// accountFields lists what package billing stores in an organization's document.
func accountFields(a *billing.Account) fields {
	return fields{
		{"plan", text(&a.Plan)},
		{"status", text(&a.Status)},
		{"suspended", flag(&a.Suspended)},
		{"subscription", keyedGroup(subscriptionFields(&a.Subscription))},
		{"billing_due_at", timestamp(&a.DueAt)},
		{"billing_fetched_at", timestamp(&a.FetchedAt)},
	}
}

func subscriptionFields(s *billing.Subscription) fields {
	return fields{
		{"id", text(&s.ID)},
		{"provider", text(&s.Provider)},
		{"customer_id", text(&s.CustomerID)},
		{"status", text(&s.Status)},
		{"plan", text(&s.Plan)},
		{"interval", text(&s.Interval)},
		{"period_start", timestamp(&s.PeriodStart)},
		{"period_end", timestamp(&s.PeriodEnd)},
		{"cancel_at_period_end", flag(&s.CancelAtPeriodEnd)},
		{"pending_plan", text(&s.PendingPlan)},
		{"started_at", timestamp(&s.StartedAt)},
		{"past_due_since", timestamp(&s.PastDueSince)},
	}
}

// accountOf makes the account of an organization's document that exists.
func accountOf(snap *gcp.DocumentSnapshot) (billing.Account, error) {
	a, _, err := accountWithRest(snap)
	return a, err
}

// accountWithRest is accountOf of an account that is going to be written again.
func accountWithRest(snap *gcp.DocumentSnapshot) (billing.Account, *document.Rest, error) {
	o, err := organizationOf(snap)
	if err != nil {
		return billing.Account{}, nil, err
	}
	a := billing.Account{Organization: o, Version: versionOf(snap.UpdateTime)}
	a.Subscription.Status = billing.None
	rest, err := decodeWithRest(snap, accountFields(&a))
	return a, rest, err
}

// appliedEvent records that a payment provider's event was applied. The document's id is the event's. Firestore deletes
// it some time after expiresAt.
type appliedEvent struct {
	organizationID string
	appliedAt      time.Time
	expiresAt      time.Time
}

func appliedEventFields(e *appliedEvent) fields {
	return fields{
		{"organization_id", text(&e.organizationID)},
		{"applied_at", timestamp(&e.appliedAt)},
		{"expires_at", timestamp(&e.expiresAt)},
	}
}

// eventRetention is longer than any provider repeats an event.
const eventRetention = 60 * 24 * time.Hour

// Account implements billing.Store.
func (s *Accounts) Account(ctx context.Context, organizationID string) (billing.Account, error) {
	snap, err := s.client.Directory().read(ctx, organizationID)
	if err != nil {
		return billing.Account{}, err
	}
	return accountOf(snap)
}

// Save implements billing.Store.
func (s *Accounts) Save(ctx context.Context, a billing.Account, eventID string) error {
	ch, err := s.client.beginChange(ctx)
	if err != nil {
		return err
	}
	read, err := updateTimeOf(a.Version)
	if err != nil || ch.organization.ID != a.ID {
		return fmt.Errorf("save the account of %s: the account was not read from this store", a.ID)
	}
	return ch.retryUntilDecided(ctx, func(ctx context.Context, again bool) error {
		state, err := ch.readState(ctx, again, nil)
		if err != nil || state.committed != "" {
			return err
		}
		switch {
		case !state.org.snap.Exists():
			return errNoOrganization()
		case !state.org.snap.UpdateTime.Equal(read):
			return billing.ErrChanged
		}
		before, rest, err := accountWithRest(state.org.snap)
		if err != nil {
			return err
		}
		b := s.client.batch().Update(ch.organization, updates(accountFields(&a).encodeWith(rest)),
			gcp.LastUpdateTime(read))
		if err := s.saveEvent(b, appliedEvent{a.ID, ch.at, ch.at.Add(eventRetention)}, eventID); err != nil {
			return err
		}
		ch.writeEvents(b, "", billing.Events(before, a))
		ch.writeEntry(b, organizationState{a.Organization, state.org.snap},
			audit.Target{Type: "organization", ID: a.ID}, accountChanges(before, a))
		_, err = ch.commit(ctx, b)
		return s.ignoreRepeatedEvent(ctx, eventID, err)
	})
}

// saveEvent adds the event, if there is one, to a commit. The commit fails when the event has been applied.
func (s *Accounts) saveEvent(b *batch, e appliedEvent, eventID string) error {
	if eventID == "" {
		return nil
	}
	ref, ok := s.client.ref(appliedEventCollection, eventID)
	if !ok {
		return fmt.Errorf("save the event of an account: %w", errBadID)
	}
	b.Create(ref, appliedEventFields(&e).encode())
	return nil
}

// ignoreRepeatedEvent returns nil for a commit that failed because another one has applied the same event.
func (s *Accounts) ignoreRepeatedEvent(ctx context.Context, eventID string, err error) error {
	var u *undecided
	if eventID == "" || !errors.As(err, &u) || u.unknown {
		return err
	}
	applied, readErr := s.Applied(ctx, eventID)
	switch {
	case readErr != nil:
		return readErr
	case applied:
		return nil
	default:
		return err
	}
}

// Postpone implements billing.Store.
func (s *Accounts) Postpone(ctx context.Context, a billing.Account, next time.Time) error {
	ref, ok := s.client.ref(organizationCollection, a.ID)
	read, err := updateTimeOf(a.Version)
	if !ok || err != nil {
		return errNoOrganization()
	}
	set := []gcp.Update{
		{Path: "billing_due_at", Value: timestamp(&next).encode()},
		{Path: "billing_fetched_at", Value: timestamp(&a.FetchedAt).encode()},
	}
	if id := a.Subscription.CustomerID; id != "" {
		set = append(set, gcp.Update{Path: "subscription.customer_id", Value: id})
	}
	b := s.client.batch().Update(ref, set, gcp.LastUpdateTime(read))
	_, err = s.client.commit(ctx, b)
	var u *undecided
	switch {
	case errors.As(err, &u) && u.unknown:
		return unavailable("commit", err) // the account is still due, or it was postponed: both are safe
	case status.Code(errors.Unwrap(err)) == codes.NotFound:
		return errNoOrganization()
	case u != nil:
		return billing.ErrChanged
	default:
		return err
	}
}

// Applied implements billing.Store.
func (s *Accounts) Applied(ctx context.Context, eventID string) (bool, error) {
	ref, ok := s.client.ref(appliedEventCollection, eventID)
	if !ok {
		return false, fmt.Errorf("read an event: %w", errBadID)
	}
	snap, err := s.client.readOne(ctx, ref)
	return err == nil && snap.Exists(), err
}

// Due implements billing.Store.
func (s *Accounts) Due(ctx context.Context, now time.Time, limit int) ([]string, error) {
	q := query{collection: organizationCollection, until: "billing_due_at", now: now}
	return dueIDs(ctx, s.client, q, limit, accountOf)
}

// accountChanges lists what a change did to an account, without the provider's ids.
func accountChanges(before, after billing.Account) []audit.Change {
	var changes []audit.Change
	was, is := before.Subscription, after.Subscription
	for _, f := range []audit.Change{
		{Field: "plan", Old: string(before.Plan), New: string(after.Plan)},
		{Field: "status", Old: string(before.Status), New: string(after.Status)},
		{Field: "subscription.status", Old: string(was.Status), New: string(is.Status)},
		{Field: "subscription.interval", Old: string(was.Interval), New: string(is.Interval)},
		{Field: "subscription.pending_plan", Old: string(was.PendingPlan), New: string(is.PendingPlan)},
		{
			Field: "subscription.cancel_at_period_end",
			Old:   strconv.FormatBool(was.CancelAtPeriodEnd), New: strconv.FormatBool(is.CancelAtPeriodEnd),
		},
	} {
		if f.Old != f.New {
			changes = append(changes, f)
		}
	}
	return changes
}

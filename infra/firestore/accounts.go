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
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// Accounts implements billing.Store. An account is a part of its organization's document, so that a change of an agent
// reads it for nothing, and the two can't be committed past each other.
type Accounts struct {
	client *Client
}

var _ billing.Store = (*Accounts)(nil)

// Accounts is the store of accounts.
func (c *Client) Accounts() *Accounts { return &Accounts{client: c} }

// accountDocument is the part of an organization's document that package billing knows.
type accountDocument struct {
	Plan         plan.ID               `firestore:"plan"`
	Status       organization.Status   `firestore:"status"`
	Suspended    bool                  `firestore:"suspended"`
	Subscription *subscriptionDocument `firestore:"subscription"`
	DueAt        *time.Time            `firestore:"billing_due_at"`
}

type subscriptionDocument struct {
	Provider          billing.Provider `firestore:"provider"`
	ID                string           `firestore:"id"`
	CustomerID        string           `firestore:"customer_id"`
	Status            billing.Status   `firestore:"status"`
	Plan              plan.ID          `firestore:"plan"`
	Interval          billing.Interval `firestore:"interval"`
	PeriodStart       *time.Time       `firestore:"period_start"`
	PeriodEnd         *time.Time       `firestore:"period_end"`
	CancelAtPeriodEnd bool             `firestore:"cancel_at_period_end"`
	PendingPlan       plan.ID          `firestore:"pending_plan"`
	StartedAt         *time.Time       `firestore:"started_at"`
	PastDueSince      *time.Time       `firestore:"past_due_since"`
}

// eventDocument is an event that was applied; its id is the event's. Firestore deletes it some time after expires_at.
type eventDocument struct {
	OrganizationID string    `firestore:"organization_id"`
	AppliedAt      time.Time `firestore:"applied_at"`
	ExpiresAt      time.Time `firestore:"expires_at"`
}

// eventRetention is longer than any provider sends an event again.
const eventRetention = 60 * 24 * time.Hour

func accountDocumentOf(a billing.Account) accountDocument {
	s := a.Subscription
	return accountDocument{
		Plan: a.Plan, Status: a.Status, Suspended: a.Suspended, DueAt: nullable(a.DueAt),
		Subscription: &subscriptionDocument{
			Provider: s.Provider, ID: s.ID, CustomerID: s.CustomerID, Status: s.Status, Plan: s.Plan,
			Interval:    s.Interval,
			PeriodStart: nullable(s.PeriodStart), PeriodEnd: nullable(s.PeriodEnd),
			CancelAtPeriodEnd: s.CancelAtPeriodEnd,
			PendingPlan:       s.PendingPlan, StartedAt: nullable(s.StartedAt), PastDueSince: nullable(s.PastDueSince),
		},
	}
}

// accountOf makes the account of an organization's document that exists.
func accountOf(snap *gcp.DocumentSnapshot) (billing.Account, error) {
	o, err := organizationOf(snap)
	if err != nil {
		return billing.Account{}, err
	}
	d, err := decode[accountDocument](snap)
	a := billing.Account{Organization: o, Suspended: d.Suspended, DueAt: timeOf(d.DueAt),
		Version: versionAt(snap.UpdateTime)}
	a.Subscription.Status = billing.None
	if s := d.Subscription; s != nil {
		a.Subscription = billing.Subscription{
			Provider: s.Provider, ID: s.ID, CustomerID: s.CustomerID, Status: s.Status, Plan: s.Plan,
			Interval:    s.Interval,
			PeriodStart: timeOf(s.PeriodStart), PeriodEnd: timeOf(s.PeriodEnd), CancelAtPeriodEnd: s.CancelAtPeriodEnd,
			PendingPlan: s.PendingPlan, StartedAt: timeOf(s.StartedAt), PastDueSince: timeOf(s.PastDueSince),
		}
	}
	return a, err
}

// Account implements billing.Store.
func (s *Accounts) Account(ctx context.Context, organizationID string) (billing.Account, error) {
	ref, ok := s.client.ref(organizationCollection, organizationID)
	if !ok {
		return billing.Account{}, errNoOrganization()
	}
	snaps, err := s.client.read(ctx, ref)
	if err != nil {
		return billing.Account{}, err
	}
	if !snaps[0].Exists() {
		return billing.Account{}, errNoOrganization()
	}
	return accountOf(snaps[0])
}

// Save implements billing.Store.
func (s *Accounts) Save(ctx context.Context, a billing.Account, eventID string) error {
	ch, err := s.client.begin(ctx)
	if err != nil {
		return err
	}
	read, err := writtenAt(a.Version)
	if err != nil || ch.organization.ID != a.ID {
		return fmt.Errorf("save the account of %s: not an account as it was read", a.ID)
	}
	return ch.retryUntilDecided(ctx, func(ctx context.Context, again bool) error {
		seen, err := ch.readState(ctx, again, nil)
		if err != nil || seen.committed {
			return err
		}
		switch {
		case !seen.org.snap.Exists():
			return errNoOrganization()
		case !seen.org.snap.UpdateTime.Equal(read):
			return billing.ErrChanged
		}
		before, err := accountOf(seen.org.snap)
		if err != nil {
			return err
		}
		b := s.client.batch().Update(ch.organization, fields(accountDocumentOf(a)), gcp.LastUpdateTime(read))
		if eventID != "" {
			ref, ok := s.client.ref(eventCollection, eventID)
			if !ok {
				return fmt.Errorf("save the event of an account: %w", errBadID)
			}
			b.Create(ref, eventDocument{OrganizationID: a.ID, AppliedAt: ch.at, ExpiresAt: ch.at.Add(eventRetention)})
		}
		ch.writeEntry(b, tenant{a.Organization, seen.org.snap}, audit.Target{Type: "organization", ID: a.ID},
			accountChanges(before, a))
		_, err = ch.commit(ctx, b)
		return s.once(ctx, eventID, err)
	})
}

// once makes a commit that lost to another of the same event a success: the event has been applied.
func (s *Accounts) once(ctx context.Context, eventID string, err error) error {
	var u *undecided
	if eventID == "" || !errors.As(err, &u) || u.unknown {
		return err
	}
	done, looking := s.Applied(ctx, eventID)
	switch {
	case looking != nil:
		return looking
	case done:
		return nil
	default:
		return err
	}
}

// Postpone implements billing.Store.
func (s *Accounts) Postpone(ctx context.Context, a billing.Account, next time.Time) error {
	ref, ok := s.client.ref(organizationCollection, a.ID)
	read, err := writtenAt(a.Version)
	if !ok || err != nil {
		return errNoOrganization()
	}
	b := s.client.batch().Update(ref, []gcp.Update{{Path: "billing_due_at", Value: nullable(next)}},
		gcp.LastUpdateTime(read))
	_, err = s.client.commit(ctx, b)
	var u *undecided
	switch {
	case errors.As(err, &u) && u.unknown:
		return unavailable("commit", err) // what comes of it is looked at again, in either case
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
	ref, ok := s.client.ref(eventCollection, eventID)
	if !ok {
		return false, fmt.Errorf("look for an event: %w", errBadID)
	}
	snaps, err := s.client.read(ctx, ref)
	return err == nil && snaps[0].Exists(), err
}

// Due implements billing.Store.
func (s *Accounts) Due(ctx context.Context, now time.Time, limit int) ([]string, error) {
	snaps, err := s.client.find(ctx, query{
		collection: organizationCollection, until: "billing_due_at", now: now, only: []string{},
		order: []order{{"billing_due_at", gcp.Asc}}, limit: limit,
	})
	ids := make([]string, len(snaps))
	for i, snap := range snaps {
		ids[i] = snap.Ref.ID
	}
	return ids, err
}

// accountChanges lists what a change did to an account. The provider's ids are left out.
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

// mayStart checks that the organization may have something started. What the control plane brings back by itself, it
// has checked before.
func (ch change) mayStart(org tenant) error {
	if ch.caller.Type == identity.System {
		return nil
	}
	return org.CheckMayStart()
}

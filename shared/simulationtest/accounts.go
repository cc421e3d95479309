package simulationtest

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/fault"
)

// Accounts is one process's client of the database. It implements billing.Store.
type Accounts struct {
	Database *Database
	Process  Stepper
}

var _ billing.Store = Accounts{}

// account is the account of an organization's document.
func (o organizationDocument) read() billing.Account {
	a := o.account
	a.Organization, a.Version = o.Organization, strconv.FormatInt(o.version, 36)
	a.Subscription.Status = cmp.Or(a.Subscription.Status, billing.None)
	return a
}

func noOrganization() error {
	return fault.New(fault.NotFound, "organization_not_found", "The organization does not exist.")
}

// Account implements billing.Store.
func (s Accounts) Account(ctx context.Context, id string) (a billing.Account, err error) {
	err = s.Process.Look(ctx, DatabaseService, "get account", func() error {
		found, ok := s.Database.organizations[id]
		if !ok {
			return noOrganization()
		}
		a = found.read()
		return nil
	})
	return a, read(err)
}

// Save implements billing.Store.
func (s Accounts) Save(ctx context.Context, a billing.Account, eventID string) error {
	c := s.Database.beginChange(ctx, uuid.NewString(), s.Process.Now())
	return attempts(ctx, func(bool) error {
		var before state
		err := s.Process.Look(ctx, DatabaseService, "read before save", func() (err error) {
			before, err = s.Database.readState(c, "")
			return err
		})
		if err != nil || before.committed {
			return err
		}
		return s.Process.Step(ctx, DatabaseService, "commit account", func() error {
			return s.Database.commitAccount(c, a, eventID)
		})
	})
}

// commitAccount commits an account with its audit entry and its event.
func (d *Database) commitAccount(c *change, a billing.Account, eventID string) error {
	o, ok := d.organizations[a.ID]
	switch {
	case !ok:
		return noOrganization()
	case eventID != "" && d.events[eventID]:
		return nil
	case o.read().Version != a.Version:
		return billing.ErrChanged
	}
	before := o.read()
	d.Commits++
	o.Plan, o.Status, o.account, o.version = a.Plan, a.Status, a, d.Commits
	d.organizations[a.ID] = o
	if eventID != "" {
		d.events[eventID] = true
	}
	d.writeEntry(c, d.Entries[c.entryID], audit.Target{Type: "organization", ID: a.ID}, planChanges(before, a))
	return nil
}

// planChanges lists the changes of an account that its audit entry has. The real entry has more.
func planChanges(before, after billing.Account) (changes []audit.Change) {
	if before.Plan != after.Plan {
		changes = append(changes, audit.Change{Field: "plan", Old: string(before.Plan), New: string(after.Plan)})
	}
	return changes
}

// Postpone implements billing.Store.
func (s Accounts) Postpone(ctx context.Context, a billing.Account, next time.Time) error {
	return read(s.Process.Step(ctx, DatabaseService, "postpone account", func() error {
		o, ok := s.Database.organizations[a.ID]
		switch {
		case !ok:
			return noOrganization()
		case o.read().Version != a.Version:
			return billing.ErrChanged
		}
		s.Database.Commits++
		o.account.DueAt, o.account.FetchedAt, o.version = next, a.FetchedAt, s.Database.Commits
		o.account.Subscription.CustomerID = a.Subscription.CustomerID
		s.Database.organizations[a.ID] = o
		return nil
	}))
}

// Applied implements billing.Store.
func (s Accounts) Applied(ctx context.Context, eventID string) (applied bool, err error) {
	err = s.Process.Look(ctx, DatabaseService, "get event", func() error {
		applied = s.Database.events[eventID]
		return nil
	})
	return applied, read(err)
}

// Due implements billing.Store.
func (s Accounts) Due(ctx context.Context, now time.Time, limit int) (ids []string, err error) {
	err = s.Process.Look(ctx, DatabaseService, "list due accounts", func() error {
		var due []billing.Account
		for _, o := range s.Database.organizations {
			if at := o.account.DueAt; !at.IsZero() && !at.After(now) {
				due = append(due, o.read())
			}
		}
		slices.SortFunc(due, func(x, y billing.Account) int {
			return cmp.Or(x.DueAt.Compare(y.DueAt), cmp.Compare(x.ID, y.ID))
		})
		for _, a := range due[:min(len(due), limit)] {
			ids = append(ids, a.ID)
		}
		return nil
	})
	return ids, read(err)
}

// PaymentClient is one process's client of the payment provider. It implements billing.Payments.
type PaymentClient struct {
	billing.NoProvider
	World   *World
	Process Stepper
}

// Provider implements billing.Payments.
func (PaymentClient) Provider() billing.Provider { return billing.Stripe }

// Fetch implements billing.Subscriptions.
func (c PaymentClient) Fetch(ctx context.Context, id string) (found billing.State, err error) {
	err = c.look(ctx, "fetch subscription", func() error {
		for _, s := range c.World.subscriptions {
			if s.ID == id {
				found = billing.State{OrganizationID: organizationID, Subscription: *s}
				return nil
			}
		}
		return fault.New(fault.NotFound, "not_found", "The provider has no such subscription.")
	})
	return found, err
}

// ListLive implements billing.Subscriptions.
func (c PaymentClient) ListLive(ctx context.Context, _, customerID string) (live []billing.Subscription, err error) {
	err = c.look(ctx, "list subscriptions", func() error {
		for _, s := range c.World.subscriptions {
			if s.CustomerID == customerID && s.Live() {
				live = append(live, *s)
			}
		}
		return nil
	})
	return live, err
}

func (c PaymentClient) look(ctx context.Context, name string, read func() error) error {
	return portError(c.Process.Look(ctx, PaymentService, name, read), func() error {
		return fault.New(fault.Unavailable, "payments_unavailable", "The payment provider is unavailable.")
	})
}

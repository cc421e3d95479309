package billing

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// provider has the live subscriptions of one customer, and knows no other.
type provider []Subscription

func (p provider) Fetch(_ context.Context, id string) (State, error) {
	for _, s := range p {
		if s.ID == id {
			return State{OrganizationID: "org_1", Subscription: s}, nil
		}
	}
	return State{}, fault.New(fault.NotFound, "subscription_not_found", "No such subscription.")
}

func (p provider) ListLive(context.Context, string, string) ([]Subscription, error) { return p, nil }

func (provider) EndCheckouts(context.Context, string) error { return nil }

func TestRefresh_ReportsWhatNeedsAPerson(t *testing.T) { //nolint:paralleltest // captures the process's logger
	now := time.Date(2026, time.March, 2, 9, 30, 0, 0, time.UTC)
	paid := func(id string) Subscription {
		return Subscription{
			Provider: Stripe, ID: id, CustomerID: "cus_1", Status: Active, Plan: plan.Pro, Interval: Month,
			StartedAt: now,
		}
	}
	for name, row := range map[string]struct {
		account      string
		provider     provider
		wantReported bool
		wantForeign  bool
	}{
		"one subscription": {account: "sub_1", provider: provider{paid("sub_1")}},
		"two subscriptions": {
			account: "sub_1", provider: provider{paid("sub_1"), paid("sub_2")}, wantReported: true,
		},
		"one that the provider lacks": {account: "sub_0", provider: provider{paid("sub_1")}, wantForeign: true},
	} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // as above
			var lines bytes.Buffer
			former := slog.Default()
			slog.SetDefault(slog.New(slog.NewTextHandler(&lines, nil)))
			defer slog.SetDefault(former)
			a := Account{Organization: organization.New("org_1", now), Subscription: paid(row.account)}
			err := refresh(t.Context(), row.provider, &a, "", now)
			if errors.Is(err, errForeign) != row.wantForeign || err != nil && !row.wantForeign {
				t.Errorf("refresh = %v, want the error of an unknown subscription: %t", err, row.wantForeign)
			}
			if got := strings.Contains(lines.String(), "event=several_subscriptions"); got != row.wantReported {
				t.Errorf("several subscriptions are reported: %t, want %t: %s", got, row.wantReported, lines.String())
			}
		})
	}
}

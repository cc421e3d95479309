package backendtest

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/member"
)

// PaymentProvider sells every plan.
type PaymentProvider struct {
	*uses
	// Subscriptions are the subscriptions by their ids.
	Subscriptions map[string]billing.State
	// Orders are the checkouts that were made.
	Orders []billing.Order

	mu sync.Mutex
	// pages are the answers to calls with an idempotency key, by its id.
	pages map[string]billing.Session
	made  int
}

var _ billing.Payments = (*PaymentProvider)(nil)

// ForgedSignature is the one signature that PaymentProvider refuses.
const ForgedSignature = "forged"

// Provider implements billing.Payments.
func (p *PaymentProvider) Provider() billing.Provider {
	p.add("Payments")
	return billing.Stripe
}

// Checkout implements billing.Payments.
func (p *PaymentProvider) Checkout(ctx context.Context, o billing.Order) (billing.Session, error) {
	p.add("Payments")
	s := p.openPage(ctx, string(o.Plan), func() { p.Orders = append(p.Orders, o) })
	s.CustomerID = cmp.Or(o.Present.CustomerID, "cus_"+o.OrganizationID)
	return s, nil
}

// Pages counts the pages that were made.
func (p *PaymentProvider) Pages() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made
}

// openPage makes a page and runs effect, or returns the page that a call with the same idempotency key made.
func (p *PaymentProvider) openPage(ctx context.Context, name string, effect func()) billing.Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	attempt := call.From(ctx).Attempt
	if attempt != nil {
		if page, ok := p.pages[attempt.ID]; ok {
			return page
		}
	}
	effect()
	p.made++
	page := billing.Session{URL: "https://pay.test/" + name, ExpiresAt: time.Now().Add(time.Hour)}
	if attempt != nil {
		if p.pages == nil {
			p.pages = map[string]billing.Session{}
		}
		p.pages[attempt.ID] = page
	}
	return page
}

// Portal implements billing.Payments.
func (p *PaymentProvider) Portal(ctx context.Context, customerID string) (billing.Session, error) {
	p.add("Payments")
	return p.openPage(ctx, customerID, func() {}), nil
}

// Event implements billing.Payments.
func (p *PaymentProvider) Event(body []byte, signature string) (billing.Event, error) {
	p.add("Payments")
	var e struct {
		ID   string
		Data struct{ Object struct{ ID string } }
	}
	if signature == ForgedSignature || json.Unmarshal(body, &e) != nil {
		return billing.Event{}, fault.New(fault.BadRequest, "invalid_signature", "The event is not the provider's.")
	}
	return billing.Event{ID: e.ID, SubscriptionID: e.Data.Object.ID}, nil
}

// ListLive implements billing.Subscriptions.
func (p *PaymentProvider) ListLive(_ context.Context, organizationID, customerID string) ([]billing.Subscription,
	error,
) {
	p.add("Payments")
	var live []billing.Subscription
	for _, id := range slices.Sorted(maps.Keys(p.Subscriptions)) {
		s := p.Subscriptions[id]
		if s.OrganizationID == organizationID && s.Subscription.CustomerID == customerID && s.Subscription.Live() {
			live = append(live, s.Subscription)
		}
	}
	return live, nil
}

// EndCheckouts implements billing.Subscriptions.
func (p *PaymentProvider) EndCheckouts(context.Context, string) error {
	p.add("Payments")
	return nil
}

// Fetch implements billing.Subscriptions.
func (p *PaymentProvider) Fetch(_ context.Context, id string) (billing.State, error) {
	p.add("Payments")
	s, ok := p.Subscriptions[id]
	if !ok {
		return s, fault.New(fault.NotFound, "subscription_not_found", "There is no such subscription.")
	}
	return s, nil
}

// IdentityProvider keeps people in memory.
type IdentityProvider struct {
	*uses
	// Persons are the people by their ids. Add one before the first call.
	Persons map[string]member.Person
	// Revoked are the people whose sessions were ended, in order.
	Revoked []string
	// FailRevoke is the error of Revoke; nil for none.
	FailRevoke error

	mu sync.Mutex
}

var _ member.Provider = (*IdentityProvider)(nil)

// People implements member.Provider.
func (p *IdentityProvider) People(_ context.Context, ids []string) ([]member.Person, error) {
	p.add("Members")
	p.mu.Lock()
	defer p.mu.Unlock()
	var people []member.Person
	for _, id := range ids {
		if person, ok := p.Persons[id]; ok {
			people = append(people, person)
		}
	}
	return people, nil
}

// Assign implements member.Provider.
func (p *IdentityProvider) Assign(_ context.Context, id, organizationID string, role identity.Role) error {
	p.add("Members")
	p.mu.Lock()
	defer p.mu.Unlock()
	person, ok := p.Persons[id]
	if !ok {
		return member.NotFound()
	}
	person.OrganizationID, person.Role = organizationID, role
	p.Persons[id] = person
	return nil
}

// Revoke implements member.Provider.
func (p *IdentityProvider) Revoke(_ context.Context, id string) error {
	p.add("Members")
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.FailRevoke != nil {
		return p.FailRevoke
	}
	p.Revoked = append(p.Revoked, id)
	return nil
}

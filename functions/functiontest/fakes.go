package functiontest

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentlog"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/member"
	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/provisioning"
)

// Cluster is a cluster that reaches every desired state immediately.
type Cluster struct {
	*uses
	cells []string
	// Healthy are the agents whose pods are ready, and have been for a day.
	Healthy []string
	// Drifted are the agents whose objects differ from their records.
	Drifted map[string]provisioning.Problem
	// Orphans are the agents of namespaces that are a day old.
	Orphans []string
}

var (
	_ provisioning.Cluster         = (*Cluster)(nil)
	_ provisioning.NamespaceLister = (*Cluster)(nil)
	_ provisioning.PodLister       = (*Cluster)(nil)
	_ provisioning.ObjectLister    = (*Cluster)(nil)
)

// Apply implements provisioning.Cluster.
func (c *Cluster) Apply(context.Context, agent.Agent, agent.StageName, provisioning.RuntimeInput) error {
	c.add("Cluster")
	return nil
}

// CheckReady implements provisioning.Cluster.
func (c *Cluster) CheckReady(context.Context, agent.Agent) error {
	c.add("Cluster")
	return nil
}

// Prune implements provisioning.Cluster.
func (c *Cluster) Prune(context.Context, agent.Agent) error {
	c.add("Cluster")
	return nil
}

// Delete implements provisioning.Cluster.
func (c *Cluster) Delete(context.Context, agent.Agent) error {
	c.add("Cluster")
	return nil
}

// CheckGone implements provisioning.Cluster.
func (c *Cluster) CheckGone(context.Context, agent.Agent) (bool, error) {
	c.add("Cluster")
	return true, nil
}

// Namespaces implements provisioning.NamespaceLister.
func (c *Cluster) Namespaces(context.Context) ([]provisioning.Placement, error) {
	c.add("Namespaces")
	var all []provisioning.Placement
	for _, id := range c.Orphans {
		all = append(all, provisioning.Placement{
			Cell: c.cells[0], AgentID: id, UID: id,
			CreatedAt: time.Now().AddDate(0, 0, -1),
		})
	}
	return all, nil
}

// MarkNamespace implements provisioning.NamespaceLister.
func (c *Cluster) MarkNamespace(context.Context, provisioning.Placement, time.Time) error {
	c.add("Namespaces")
	return nil
}

// DeleteNamespace implements provisioning.NamespaceLister.
func (c *Cluster) DeleteNamespace(_ context.Context, p provisioning.Placement) error {
	c.add("Namespaces")
	c.Orphans = slices.DeleteFunc(c.Orphans, func(id string) bool { return id == p.AgentID })
	return nil
}

// Cells implements provisioning.PodLister.
func (c *Cluster) Cells() []string {
	c.add("Pods")
	return c.cells
}

// Pods implements provisioning.PodLister.
func (c *Cluster) Pods(_ context.Context, cell string) ([]provisioning.Pod, error) {
	c.add("Pods")
	if cell != c.cells[0] {
		return nil, nil
	}
	var pods []provisioning.Pod
	for _, id := range c.Healthy {
		pods = append(pods, provisioning.Pod{AgentID: id, Since: time.Now().AddDate(0, 0, -1)})
	}
	return pods, nil
}

// Objects implements provisioning.ObjectLister.
func (c *Cluster) Objects(context.Context, string) (provisioning.Snapshot, error) {
	c.add("Objects")
	return objects(c.Drifted), nil
}

// objects implements provisioning.Snapshot.
type objects map[string]provisioning.Problem

// Differences implements provisioning.Snapshot.
func (o objects) Differences(a agent.Agent) []provisioning.Difference {
	if o[a.ID] == "" {
		return nil
	}
	return []provisioning.Difference{{Object: "NetworkPolicy agent", Problem: o[a.ID]}}
}

// Current implements provisioning.PodLister.
func (c *Cluster) Current(agent.Agent, provisioning.Pod) bool {
	c.add("Pods")
	return true
}

// Existence implements provisioning.PodLister.
func (c *Cluster) Existence(_ context.Context, a agent.Agent) (provisioning.Existence, error) {
	c.add("Pods")
	return provisioning.Existence{Namespace: true, Pod: slices.Contains(c.Healthy, a.ID)}, nil
}

// prober reaches every agent.
type prober struct{ *uses }

var _ provisioning.AgentProber = prober{}

// Probe implements provisioning.AgentProber.
func (p prober) Probe(context.Context, agent.Agent) error {
	p.add("Prober")
	return nil
}

// Accepts implements provisioning.AgentProber.
func (p prober) Accepts(context.Context, agent.Agent, credential.Credentials) (provisioning.Verdict, error) {
	p.add("Prober")
	return provisioning.Accepted, nil
}

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
	return p.openPage(ctx, string(o.Plan), func() { p.Orders = append(p.Orders, o) }), nil
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
	attempt := idempotency.From(ctx)
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

// Fetch implements billing.Payments.
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

// logSource records the use of a source of logs.
type logSource struct {
	*uses
	source agentlog.Source
}

var _ agentlog.Source = logSource{}

// Open implements agentlog.Source.
func (s logSource) Open(ctx context.Context, a agent.Agent, o agentlog.Options) (agentlog.Stream, error) {
	s.add("Logs")
	return s.source.Open(ctx, a, o)
}

// metricsSource has no samples.
type metricsSource struct{ *uses }

var _ metrics.Source = metricsSource{}

// Read implements metrics.Source.
func (s metricsSource) Read(context.Context, metrics.Query, func(metrics.Sample)) (metrics.Usage, error) {
	s.add("MetricsSource")
	return metrics.Usage{Calls: 1}, nil
}

// Package organization knows the tenant: its plan, what it may hold and what it holds. It does not know who pays
// (package billing) nor how it is stored.
package organization

import (
	"context"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

// Status is whether an organization is in good standing.
type Status string

// The statuses.
const (
	Active    Status = "active"
	PastDue   Status = "past_due"
	Suspended Status = "suspended"
)

// Values lists the statuses.
func (Status) Values() []string { return []string{string(Active), string(PastDue), string(Suspended)} }

// Usage is what an organization holds, or may hold.
type Usage struct {
	Agents       int64
	CPUMillis    int64 // millicores of CPU limit
	MemoryBytes  int64
	StorageBytes int64
	APIKeys      int64
}

// Plus adds two usages.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		Agents: u.Agents + v.Agents, CPUMillis: u.CPUMillis + v.CPUMillis, MemoryBytes: u.MemoryBytes + v.MemoryBytes,
		StorageBytes: u.StorageBytes + v.StorageBytes, APIKeys: u.APIKeys + v.APIKeys,
	}
}

// Minus subtracts a usage.
func (u Usage) Minus(v Usage) Usage {
	return u.Plus(Usage{-v.Agents, -v.CPUMillis, -v.MemoryBytes, -v.StorageBytes, -v.APIKeys})
}

// Excess is one limit that a usage is over.
type Excess struct {
	Limit        string
	Current, Max any
}

// Excesses lists the limits that the usage is over.
func (u Usage) Excesses(limits Usage) []Excess {
	var over []Excess
	for _, e := range []struct {
		limit         string
		current, most int64
		show          func(int64) any
	}{
		{"agents", u.Agents, limits.Agents, count},
		{"cpu_cores", u.CPUMillis, limits.CPUMillis, cores},
		{"memory_bytes", u.MemoryBytes, limits.MemoryBytes, count},
		{"storage_bytes", u.StorageBytes, limits.StorageBytes, count},
		{"api_keys", u.APIKeys, limits.APIKeys, count},
	} {
		if e.current > e.most {
			over = append(over, Excess{e.limit, e.show(e.current), e.show(e.most)})
		}
	}
	return over
}

func count(n int64) any { return n }

func cores(millis int64) any { return float64(millis) / 1000 }

// Organization is the record of a tenant.
type Organization struct {
	ID        string
	Plan      plan.ID
	Status    Status
	Usage     Usage
	CreatedAt time.Time
}

// New makes the record of an organization that is seen for the first time.
func New(id string, now time.Time) Organization {
	return Organization{ID: id, Plan: plan.Hobby, Status: Active, CreatedAt: now}
}

// Limits is what the organization's plan lets it hold.
func (o Organization) Limits() (Usage, error) {
	p, err := plan.Get(o.Plan)
	if err != nil {
		return Usage{}, err
	}
	return Usage{
		Agents: p.MaxAgents, CPUMillis: p.MaxAgents * p.CPULimitMillicores, MemoryBytes: p.MaxAgents * p.MemoryBytes(),
		StorageBytes: p.MaxAgents * p.StorageBytes(), APIKeys: p.MaxAPIKeys,
	}, nil
}

// CheckFits checks that the organization's plan takes an agent of this size. The error is PaymentRequired.
func (o Organization) CheckFits(size plan.Plan) error {
	p, err := plan.Get(o.Plan)
	if err != nil {
		return err
	}
	if size.Fits(p) {
		return nil
	}
	return fault.New(fault.PaymentRequired, "plan_capacity_exceeded",
		"An organization on the %s plan can't create an agent of size %s. Upgrade, or choose a smaller size.", o.Plan,
		size.ID).
		WithMeta(map[string]any{"limit": "resource_plan", "current": size.ID, "max": o.Plan, "plan": o.Plan,
			"upgrade_to": size.ID})
}

// CheckMayStart checks that an agent of the organization may be created, or brought up that is down: nothing is due,
// nothing withheld, and what it holds is within its plan, as it may not be since the plan became smaller. The error is
// PaymentRequired.
func (o Organization) CheckMayStart() error {
	switch o.Status {
	case PastDue:
		return fault.New(fault.PaymentRequired, "subscription_past_due",
			"A payment of the organization's subscription failed. Pay it in the billing portal; nothing is created or started until then.")
	case Suspended:
		return fault.New(fault.PaymentRequired, "billing_required",
			"The organization is suspended. Nothing is created or started; ask the operator of the service.")
	default:
	}
	limits, err := o.Limits()
	if err != nil {
		return err
	}
	limits.APIKeys = o.Usage.APIKeys // they take nothing that an agent needs
	for _, e := range o.Usage.Excesses(limits) {
		return o.errLimitReached(e.Limit, e.Current, e.Max)
	}
	return nil
}

// AddUsage adds a change to the usage. Where the change needs more than the plan has room for, the usage stays as it is
// and the error is PaymentRequired with the limit that is reached. Giving back always succeeds.
func (o *Organization) AddUsage(change Usage) error {
	limits, err := o.Limits()
	if err != nil {
		return err
	}
	after := o.Usage.Plus(change)
	for _, d := range []struct {
		name                string
		change, after, most int64
		show                func(int64) any
	}{
		{"agents", change.Agents, after.Agents, limits.Agents, count},
		{"cpu_cores", change.CPUMillis, after.CPUMillis, limits.CPUMillis, cores},
		{"memory_bytes", change.MemoryBytes, after.MemoryBytes, limits.MemoryBytes, count},
		{"storage_bytes", change.StorageBytes, after.StorageBytes, limits.StorageBytes, count},
	} {
		if d.change > 0 && d.after > d.most {
			return o.errLimitReached(d.name, d.show(d.after-d.change), d.show(d.most))
		}
	}
	o.Usage = after
	return nil
}

func (o Organization) errLimitReached(limit string, current, most any) error {
	meta := map[string]any{"limit": limit, "current": current, "max": most, "plan": o.Plan}
	if p, err := plan.Get(o.Plan); err == nil {
		meta["upgrade_to"] = p.Next()
	}
	return fault.New(fault.PaymentRequired, "plan_capacity_exceeded",
		"The %s plan's limit of %s is reached. Delete an agent or upgrade the plan.", o.Plan, limit).WithMeta(meta)
}

// Directory knows the organizations and users that sign in through the identity provider.
type Directory interface {
	// Ensure creates the records of an organization and a user that are seen for the first time, once, however many
	// requests race, and keeps the user's email and name as u has them, where it has any. An empty organizationID
	// leaves the organization out. Errors: Unavailable.
	Ensure(ctx context.Context, organizationID string, u User) error
	// Organization reads an organization. Errors: NotFound, Unavailable.
	Organization(ctx context.Context, id string) (Organization, error)
}

// User is a person who signed in.
type User struct {
	// ID is derived from the issuer and the subject, so that races create it once.
	ID        string
	Subject   string
	Email     string
	Name      string
	CreatedAt time.Time
}

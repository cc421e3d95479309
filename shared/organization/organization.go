// Package organization defines the tenant: its plan, its limits and its usage. It does not handle payment (package
// billing does) and does not store organizations.
package organization

import (
	"context"
	"time"

	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/ratelimit"
)

// Status is the billing status of an organization.
type Status string

// The statuses.
const (
	Active    Status = "active"
	PastDue   Status = "past_due"
	Suspended Status = "suspended"
)

// Values lists the statuses.
func (Status) Values() []string { return []string{string(Active), string(PastDue), string(Suspended)} }

// Usage holds amounts of an organization's resources: the amounts in use, or the limits.
type Usage struct {
	Agents       int64
	CPUMillis    int64 // millicores of CPU limit
	MemoryBytes  int64
	StorageBytes int64
	APIKeys      int64
	// SnapshotBytes has no limit: that of a plan is how many snapshots an agent has.
	SnapshotBytes int64
}

// Plus adds two usages.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		Agents: u.Agents + v.Agents, CPUMillis: u.CPUMillis + v.CPUMillis, MemoryBytes: u.MemoryBytes + v.MemoryBytes,
		StorageBytes: u.StorageBytes + v.StorageBytes, APIKeys: u.APIKeys + v.APIKeys,
		SnapshotBytes: u.SnapshotBytes + v.SnapshotBytes,
	}
}

// Minus subtracts a usage.
func (u Usage) Minus(v Usage) Usage {
	return u.Plus(Usage{-v.Agents, -v.CPUMillis, -v.MemoryBytes, -v.StorageBytes, -v.APIKeys, -v.SnapshotBytes})
}

// Excess is one exceeded limit.
type Excess struct {
	Limit        string
	Current, Max any
}

// Excesses lists the limits that the usage exceeds.
func (u Usage) Excesses(limits Usage) []Excess {
	var excesses []Excess
	for _, e := range []struct {
		limit        string
		current, max int64
		show         func(int64) any
	}{
		{"agents", u.Agents, limits.Agents, count},
		{"cpu_cores", u.CPUMillis, limits.CPUMillis, cores},
		{"memory_bytes", u.MemoryBytes, limits.MemoryBytes, count},
		{"storage_bytes", u.StorageBytes, limits.StorageBytes, count},
		{"api_keys", u.APIKeys, limits.APIKeys, count},
	} {
		if e.current > e.max {
			excesses = append(excesses, Excess{e.limit, e.show(e.current), e.show(e.max)})
		}
	}
	return excesses
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
	// CreationsFullAt is the state of the rate limit of creations; see ratelimit.Limit.TakeStored. Its zero value is
	// the state of an organization that has created no agent.
	CreationsFullAt time.Time
	// SecretWritesFullAt is the state of the rate limit of secret writes, as CreationsFullAt is of creations.
	SecretWritesFullAt time.Time
	// ExportsFullAt is the state of the rate limit of exports, as CreationsFullAt is of creations.
	ExportsFullAt time.Time
	// Exec says who may enter the containers of its agents.
	Exec Exec
	// Egress is what new agents may reach unless their client says otherwise.
	Egress egress.Rules
	// Rest is what another release stored in the record's maps. Only new agents take of it.
	Rest *document.Rest
}

// New makes the record of a new organization.
func New(id string, now time.Time) Organization {
	return Organization{ID: id, Plan: plan.Hobby, Status: Active, CreatedAt: now}
}

// Limits returns the limits of the organization's plan.
func (o Organization) Limits() (Usage, error) {
	p, err := plan.Get(o.Plan)
	if err != nil {
		return Usage{}, err
	}
	return limitsOf(p), nil
}

func limitsOf(p plan.Plan) Usage {
	return Usage{
		Agents: p.MaxAgents, CPUMillis: p.MaxAgents * p.CPULimitMillicores, MemoryBytes: p.MaxAgents * p.MemoryBytes(),
		StorageBytes: p.MaxAgents * p.StorageBytes(), APIKeys: p.MaxAPIKeys,
	}
}

// MaxWebhooks is how many webhooks the organization's plan allows.
func (o Organization) MaxWebhooks() (int, error) {
	p, err := plan.Get(o.Plan)
	return p.MaxWebhooks, err
}

// CheckFits checks that the organization's plan allows an agent of this size. The error is PaymentRequired.
func (o Organization) CheckFits(size plan.Plan) error {
	p, err := plan.Get(o.Plan)
	if err != nil {
		return err
	}
	if size.Fits(p) {
		return nil
	}
	return fault.New(fault.PaymentRequired, "plan_capacity_exceeded",
		"The %s plan does not allow agents of size %s. Upgrade the plan or choose a smaller size.", o.Plan, size.ID).
		WithMeta(map[string]any{
			"limit": "resource_plan", "current": size.ID, "max": o.Plan, "plan": o.Plan,
			"upgrade_to": size.ID,
		})
}

// CheckMayStart checks that the organization may create or start agents: it has no overdue payment, is not suspended,
// and its usage is within the plan, which may have shrunk. The error is PaymentRequired.
func (o Organization) CheckMayStart() error {
	switch o.Status {
	case PastDue:
		return fault.New(fault.PaymentRequired, "subscription_past_due",
			"A payment for the subscription failed. Pay it in the billing portal to create or start agents again.")
	case Suspended:
		return fault.New(fault.PaymentRequired, "billing_required",
			"The organization is suspended and cannot create or start agents. Contact support.")
	default:
	}
	limits, err := o.Limits()
	if err != nil {
		return err
	}
	limits.APIKeys = o.Usage.APIKeys // too many API keys do not prevent agents
	for _, e := range o.Usage.Excesses(limits) {
		return o.errLimitReached(e, o.Usage)
	}
	return nil
}

// AddUsage adds a change to the usage. If an increase would exceed the plan, the usage stays the same and the error is
// PaymentRequired with the limit. A decrease always succeeds, even on a plan that no longer exists.
func (o *Organization) AddUsage(change Usage) error {
	if change.Agents <= 0 && change.CPUMillis <= 0 && change.MemoryBytes <= 0 && change.StorageBytes <= 0 {
		o.Usage = o.Usage.Plus(change)
		return nil
	}
	limits, err := o.Limits()
	if err != nil {
		return err
	}
	after := o.Usage.Plus(change)
	for _, d := range []struct {
		name               string
		change, after, max int64
		show               func(int64) any
	}{
		{"agents", change.Agents, after.Agents, limits.Agents, count},
		{"cpu_cores", change.CPUMillis, after.CPUMillis, limits.CPUMillis, cores},
		{"memory_bytes", change.MemoryBytes, after.MemoryBytes, limits.MemoryBytes, count},
		{"storage_bytes", change.StorageBytes, after.StorageBytes, limits.StorageBytes, count},
	} {
		if d.change > 0 && d.after > d.max {
			return o.errLimitReached(Excess{d.name, d.show(d.after - d.change), d.show(d.max)}, after)
		}
	}
	o.Usage = after
	return nil
}

// CountCreation counts the creation of an agent against the rate limit. If the limit is reached, the record stays the
// same and the error is RateLimited. A limit without a quota counts nothing.
func (o *Organization) CountCreation(limit ratelimit.Limit, now time.Time) error {
	fullAt, d := limit.TakeStored(ratelimit.Creations, 1, o.CreationsFullAt, now)
	o.CreationsFullAt = fullAt
	return d.Err()
}

// CountSecretWrites counts a number of secret writes against the rate limit. If they exceed the limit, the record stays
// the same and the error is RateLimited. A limit without a quota counts nothing.
func (o *Organization) CountSecretWrites(limit ratelimit.Limit, writes int, now time.Time) error {
	fullAt, d := limit.TakeStored(ratelimit.SecretWrites, writes, o.SecretWritesFullAt, now)
	o.SecretWritesFullAt = fullAt
	return d.Err()
}

// CountExport counts the export of a volume, or other bytes that are sent, against the rate limit, each begun GiB as
// one. If it exceeds the limit, the record stays the same and the error is RateLimited. A limit without a quota counts
// nothing.
func (o *Organization) CountExport(limit ratelimit.Limit, bytes int64, now time.Time) error {
	units := (bytes + ratelimit.ExportUnit - 1) / ratelimit.ExportUnit
	fullAt, d := limit.TakeStored(ratelimit.Exports, int(units), o.ExportsFullAt, now)
	o.ExportsFullAt = fullAt
	return d.Err()
}

// errLimitReached is the refusal because of a limit. It names the smallest plan that has room for a usage.
func (o Organization) errLimitReached(e Excess, needed Usage) error {
	meta := map[string]any{"limit": e.Limit, "current": e.Current, "max": e.Max, "plan": o.Plan}
	if p, err := plan.Get(o.Plan); err == nil {
		meta["upgrade_to"] = upgradeFor(needed, p)
	}
	return fault.New(fault.PaymentRequired, "plan_capacity_exceeded",
		"The %s plan's limit for %s is reached. Delete an agent or upgrade the plan.", o.Plan, e.Limit).WithMeta(meta)
}

// upgradeFor returns the smallest plan above another one that has room for agents, or "" if none has.
func upgradeFor(needed Usage, above plan.Plan) plan.ID {
	needed.APIKeys = 0
	for _, p := range plan.All() {
		if !p.Fits(above) && len(needed.Excesses(limitsOf(p))) == 0 {
			return p.ID
		}
	}
	return ""
}

// EndsKnown is how long a process goes by what it read about the end of a user's sessions.
const EndsKnown = 10 * time.Second

// Directory stores the organizations and users that sign in through the identity provider.
type Directory interface {
	// Ensure creates the records of an organization and a user that do not exist yet, exactly once, even if requests
	// race. It updates a known user's email and name to those in u, unless they are empty. It skips the organization if
	// organizationID is empty, and the user if u.ID is. It returns when the user's sessions in the organization were
	// last ended, which it may have read EndsKnown ago; zero for never. Errors: Unavailable.
	Ensure(ctx context.Context, organizationID string, u User) (sessionsEnded time.Time, err error)
	// SessionsEnded returns when the sessions of the user with a subject in an organization were last ended, which it
	// may have read EndsKnown ago; zero for never. Errors: Unavailable.
	SessionsEnded(ctx context.Context, organizationID, subject string) (time.Time, error)
	// Organization reads an organization. Errors: NotFound, Unavailable.
	Organization(ctx context.Context, id string) (Organization, error)
}

// User is a person who signed in.
type User struct {
	// ID is derived from the issuer and the subject, so that racing requests create the same user.
	ID        string
	Subject   string
	Email     string
	Name      string
	CreatedAt time.Time
}

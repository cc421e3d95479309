package firestore

import (
	"context"
	"time"

	gcp "cloud.google.com/go/firestore"
	"github.com/google/uuid"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// change is one call of a client that changes something in its organization. Every commit of it holds its audit entry, whose id was
// chosen once for the call: where the entry exists, the change was committed, whatever became of the answer and whoever wrote since.
type change struct {
	client       *Client
	id           string
	at           time.Time
	caller       identity.Caller
	request      audit.Request
	organization *gcp.DocumentRef
	entry        *gcp.DocumentRef
}

// begin begins a change in the organization of the caller in ctx. Errors: Forbidden without an organization.
func (c *Client) begin(ctx context.Context) (change, error) {
	caller := identity.From(ctx)
	org, ok := c.ref(organizationCollection, caller.OrganizationID)
	if !ok {
		return change{}, fault.New(fault.Forbidden, "organization_required", "Choose an organization first.")
	}
	id := uuid.NewString()
	entry, _ := c.ref(auditCollection, id)
	return change{client: c, id: id, at: c.now(), caller: caller, request: audit.From(ctx), organization: org, entry: entry}, nil
}

// tenant is the organization as a change read it.
type tenant struct {
	organization.Organization
	snap *gcp.DocumentSnapshot
}

// sight is what a change saw.
type sight struct {
	org tenant
	// target is nil when none was asked for.
	target *gcp.DocumentSnapshot
	// committed is true when an earlier commit of this change was carried out, although its answer said otherwise or was lost.
	committed bool
}

// look reads the organization and the target, which may be nil, in one call. again asks whether the change has been committed already.
func (ch change) look(ctx context.Context, again bool, target *gcp.DocumentRef) (sight, error) {
	refs := []*gcp.DocumentRef{ch.organization}
	if target != nil {
		refs = append(refs, target)
	}
	if again {
		refs = append(refs, ch.entry)
	}
	snaps, err := ch.client.read(ctx, refs...)
	if err != nil {
		return sight{}, err
	}
	s := sight{committed: again && snaps[len(snaps)-1].Exists()}
	if target != nil {
		s.target = snaps[1]
	}
	s.org, err = ch.tenant(snaps[0])
	return s, err
}

// tenant makes the record of the organization, also of one that is seen for the first time.
func (ch change) tenant(snap *gcp.DocumentSnapshot) (tenant, error) {
	if !snap.Exists() {
		return tenant{organization.New(ch.organization.ID, ch.at), snap}, nil
	}
	o, err := organizationOf(snap)
	return tenant{o, snap}, err
}

// save writes the organization with the usage that the change computed. The commit fails when the organization was written meanwhile.
func (t tenant) save(b *gcp.WriteBatch) {
	if t.snap.Exists() {
		b.Update(t.snap.Ref, setUsage(t.Usage), gcp.LastUpdateTime(t.snap.UpdateTime))
		return
	}
	b.Create(t.snap.Ref, organizationDocumentOf(t.Organization))
}

// take moves the usage. What only gives back succeeds even on a plan that no longer exists.
func (t *tenant) take(moved organization.Usage) error {
	if moved.Agents <= 0 && moved.CPUMillis <= 0 && moved.MemoryBytes <= 0 && moved.StorageBytes <= 0 {
		t.Usage = t.Usage.Plus(moved)
		return nil
	}
	return t.Take(moved)
}

// defaultRetention holds for an organization on a plan that no longer exists.
const defaultRetention = 30

// log writes the audit entry of the change.
func (ch change) log(b *gcp.WriteBatch, t tenant, target audit.Target, changes []audit.Change) {
	days := defaultRetention
	if p, err := plan.Get(t.Plan); err == nil {
		days = p.AuditRetentionDays
	}

	b.Create(ch.entry, entryDocumentOf(audit.Entry{
		ID: ch.id, OrganizationID: ch.caller.OrganizationID, CreatedAt: ch.at, ExpiresAt: ch.at.AddDate(0, 0, days),
		Actor: ch.caller, Action: ch.request.Action, Target: target, Outcome: audit.Succeeded, Request: ch.request, Changes: changes,
	}))
}

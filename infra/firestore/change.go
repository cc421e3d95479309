package firestore

import (
	"cmp"
	"context"
	"fmt"
	"time"

	gcp "cloud.google.com/go/firestore"
	"github.com/google/uuid"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
)

// change is one change of a client's to its organization. Every commit of it holds the audit entry of the call, whose
// id was chosen once, and the entry names the change: where it does, the change was committed, whatever became of the
// answer and whoever wrote since.
type change struct {
	client       *Client
	id           string
	at           time.Time
	caller       identity.Caller
	request      audit.Request
	organization *gcp.DocumentRef
	entry        *gcp.DocumentRef
	trail        *audit.CallEntry
	// first is true for the call's first change, which creates the entry.
	first bool
	// attempt is nil when the change has no idempotency key, and kept is where its answer is kept.
	attempt *idempotency.Attempt
	kept    *gcp.DocumentRef
	// amends is true for a change that replaces the answer which the call's first change kept.
	amends bool
}

// begin begins a change in the organization of the caller in ctx. Errors: Forbidden without an organization.
func (c *Client) begin(ctx context.Context) (change, error) {
	caller := identity.From(ctx)
	org, ok := c.ref(organizationCollection, caller.OrganizationID)
	if !ok {
		return change{}, fault.New(fault.Forbidden, "organization_required", "Choose an organization first.")
	}
	id := uuid.NewString()
	ch := change{client: c, id: id, at: c.now(), caller: caller, request: audit.From(ctx), organization: org,
		trail: audit.CallEntryFrom(ctx)}
	ch.first = ch.trail.Claim()
	ch.entry, _ = c.ref(auditCollection, cmp.Or(ch.trail.ID(), id))
	if a := idempotency.From(ctx); a != nil && (!a.Used() || a.Amending()) {
		ch.amends = a.Used()
		if ch.kept, ok = c.ref(idempotencyCollection, a.ID); !ok {
			return change{}, fmt.Errorf("begin a change with an idempotency key: %w", errBadID)
		}
		ch.attempt = a
	}
	return ch, nil
}

// tenant is the organization as a change read it.
type tenant struct {
	organization.Organization
	snap *gcp.DocumentSnapshot
}

// changeRead is what a change saw.
type changeRead struct {
	org tenant
	// target is nil when none was asked for.
	target *gcp.DocumentSnapshot
	kept   keptAnswer
	// committed is true when an earlier commit of this change was carried out, although its answer said otherwise or
	// was lost.
	committed bool
}

// read reads the organization, the target, which may be nil, and what is kept under the idempotency key, in one call.
// again asks whether the change has been committed already. Errors: Invalid when the key is another request's.
func (ch change) readState(ctx context.Context, again bool, target *gcp.DocumentRef) (changeRead, error) {
	refs := []*gcp.DocumentRef{ch.organization}
	if target != nil {
		refs = append(refs, target)
	}
	if ch.kept != nil {
		refs = append(refs, ch.kept)
	}
	if again {
		refs = append(refs, ch.entry)
	}
	snaps, err := ch.client.read(ctx, refs...)
	if err != nil {
		return changeRead{}, err
	}
	s := changeRead{committed: again && ch.committedIn(snaps[len(snaps)-1])}
	rest := snaps[1:]
	if target != nil {
		s.target, rest = rest[0], rest[1:]
	}
	if ch.kept != nil {
		if s.kept, err = ch.keptIn(rest[0]); err != nil {
			return changeRead{}, err
		}
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

// save writes the organization with the usage that the change computed. The commit fails when the organization was
// written meanwhile.
func (t tenant) save(b *batch) {
	if t.snap.Exists() {
		b.Update(t.snap.Ref, setUsage(t.Usage), gcp.LastUpdateTime(t.snap.UpdateTime))
		return
	}
	b.Create(t.snap.Ref, organizationDocumentOf(t.Organization))
}

// addUsage moves the usage. What only gives back succeeds even on a plan that no longer exists.
func (t *tenant) addUsage(moved organization.Usage) error {
	if moved.Agents <= 0 && moved.CPUMillis <= 0 && moved.MemoryBytes <= 0 && moved.StorageBytes <= 0 {
		t.Usage = t.Usage.Plus(moved)
		return nil
	}
	return t.AddUsage(moved)
}

package firestore

import (
	"context"
	"fmt"
	"slices"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
)

// AuditLog implements audit.Log.
type AuditLog struct {
	client *Client
}

var _ audit.Log = (*AuditLog)(nil)

// AuditLog is the audit log of organizations.
func (c *Client) AuditLog() *AuditLog { return &AuditLog{client: c} }

// Append implements audit.Log.
func (l *AuditLog) Append(ctx context.Context, e audit.Entry) error {
	ref, ok := l.client.ref(auditCollection, e.ID)
	org, known := l.client.ref(organizationCollection, e.OrganizationID)
	if !ok || !known {
		return fmt.Errorf("append to the audit log: %w", errBadID)
	}
	if e.CreatedAt.IsZero() {
		e.CreatedAt = l.client.now()
	}
	return l.client.retryUntilDecided(ctx, func(ctx context.Context, again bool) error {
		refs := []*gcp.DocumentRef{org}
		if again {
			refs = append(refs, ref)
		}
		snaps, err := l.client.read(ctx, refs...)
		if err != nil || again && snaps[1].Exists() {
			return err
		}
		on := plan.Hobby // as every organization begins
		if snaps[0].Exists() {
			o, err := organizationOf(snaps[0])
			if err != nil {
				return err
			}
			on = o.Plan
		}
		e.ExpiresAt = keptUntil(on, e.CreatedAt)
		_, err = l.client.commit(ctx, l.client.batch().Create(ref, entryDocumentOf(e)))
		return err
	})
}

// List implements audit.Log.
func (l *AuditLog) List(ctx context.Context, f audit.Filter, p page.Request) (page.Page[audit.Entry], error) {
	now := l.client.now()
	return list(ctx, l.client, listing[audit.Entry]{
		query:  auditQuery(identity.From(ctx).OrganizationID, f),
		tie:    gcp.DocumentID,
		decode: entryOf,
		place:  func(e audit.Entry) place { return place{e.CreatedAt, e.ID} },
		// Firestore deletes an entry some days after its end.
		keep: func(e audit.Entry) bool { return now.Before(e.ExpiresAt) },
	}, p)
}

// Each implements audit.Log.
func (l *AuditLog) Each(ctx context.Context, f audit.Filter, visit func(audit.Entry) error) error {
	for p := (page.Request{Limit: page.MaxLimit}); ; {
		found, err := l.List(ctx, f, p)
		if err != nil {
			return err
		}
		for _, e := range found.Items {
			if err := visit(e); err != nil {
				return err
			}
		}
		if p.Cursor = found.Next; p.Cursor == "" {
			return nil
		}
	}
}

func auditQuery(organizationID string, f audit.Filter) query {
	q := query{collection: auditCollection, from: f.From, before: f.To,
		equal: []equality{{"organization_id", organizationID}}}
	for _, e := range []equality{
		{"actor.id", f.ActorID}, {"action", f.Action}, {"target.id", f.TargetID}, {"outcome", f.Outcome},
	} {
		if e.value != "" {
			q.equal = append(q.equal, e)
		}
	}
	return q
}

// entryOf makes the record of a document that exists.
func entryOf(snap *gcp.DocumentSnapshot) (audit.Entry, error) {
	d, err := decode[entryDocument](snap)
	e := audit.Entry{
		ID: snap.Ref.ID, OrganizationID: d.OrganizationID, CreatedAt: d.CreatedAt, ExpiresAt: timeOf(d.ExpiresAt),
		Actor: identity.Caller{
			Type: d.Actor.Type, ID: d.Actor.ID, Email: d.Actor.Email, OrganizationID: d.OrganizationID,
			Role:      d.Actor.Role,
			KeyPrefix: d.Actor.KeyPrefix,
		},
		Action: d.Action, Target: audit.Target(d.Target), Outcome: d.Outcome,
		Request: audit.Request{Action: d.Action, RequestID: d.RequestID, IP: d.IP, UserAgent: d.UserAgent},
	}
	for _, c := range d.Changes {
		e.Changes = append(e.Changes, audit.Change(c))
	}
	return e, err
}

// defaultRetention holds for an organization on a plan that no longer exists.
const defaultRetention = 30

// keptUntil is when the retention of an entry ends whose organization was on a plan when it was written.
func keptUntil(on plan.ID, written time.Time) time.Time {
	days := defaultRetention
	if p, err := plan.Get(on); err == nil {
		days = p.AuditRetentionDays
	}
	return written.AddDate(0, 0, days)
}

// writeEntry has a commit of the change write the call's audit entry. A call that changes more than once has one entry:
// its later changes are added to what the first one wrote, if that wrote anything.
func (ch change) writeEntry(b *batch, t tenant, target audit.Target, changes []audit.Change) {
	d := entryDocumentOf(audit.Entry{
		OrganizationID: ch.caller.OrganizationID, CreatedAt: ch.at, ExpiresAt: keptUntil(t.Plan, ch.at),
		Actor: ch.caller, Action: ch.request.Action, Target: target, Outcome: audit.Succeeded, Request: ch.request,
		Changes: changes,
	})
	d.Commits = []string{ch.id}
	if ch.first {
		b.Create(ch.entry, d)
		return
	}
	merged := map[string]any{}
	for _, f := range fields(d) {
		merged[f.FieldPath[0]] = f.Value
	}
	added := make([]any, len(d.Changes))
	for i, c := range d.Changes {
		added[i] = c
	}
	merged["changes"], merged["commits"] = gcp.ArrayUnion(added...), gcp.ArrayUnion(ch.id)
	b.Set(ch.entry, merged, gcp.MergeAll)
}

// committedIn reports whether the entry was written by a commit of the change.
func (ch change) committedIn(entry *gcp.DocumentSnapshot) bool {
	if !entry.Exists() {
		return false
	}
	d, err := decode[entryDocument](entry)
	if err != nil || !slices.Contains(d.Commits, ch.id) {
		return false
	}
	ch.trail.MarkWritten()
	return true
}

// commit commits what holds the call's audit entry.
func (ch change) commit(ctx context.Context, b *batch) (version string, err error) {
	version, err = ch.client.commit(ctx, b)
	if err == nil {
		ch.trail.MarkWritten()
	}
	return version, err
}

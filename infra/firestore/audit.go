package firestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	gcp "cloud.google.com/go/firestore"
	"google.golang.org/grpc/codes"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
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

// entryFields lists what is stored of an audit entry. The document of an entry that changes wrote also has
// commitsField. Firestore deletes it some time after expires_at.
func entryFields(e *audit.Entry) fields {
	return fields{
		{"organization_id", text(&e.OrganizationID)},
		{"created_at", timestamp(&e.CreatedAt)},
		{"expires_at", timestamp(&e.ExpiresAt)},
		{"actor", group(fields{
			{"type", text(&e.Actor.Type)},
			{"id", text(&e.Actor.ID)},
			{"email", text(&e.Actor.Email)},
			{"role", text(&e.Actor.Role)},
			{"key_prefix", text(&e.Actor.KeyPrefix)},
		})},
		{"action", text(&e.Action)},
		{"target", group(fields{
			{"type", text(&e.Target.Type)},
			{"id", text(&e.Target.ID)},
			{"name", text(&e.Target.Name)},
		})},
		{"outcome", text(&e.Outcome)},
		{"replayed", flag(&e.Replayed)},
		{"request_id", text(&e.Request.RequestID)},
		{"ip", text(&e.Request.IP)},
		{"user_agent", text(&e.Request.UserAgent)},
		{"changes", array(&e.Changes, entryChangeFields)},
	}
}

func entryChangeFields(c *audit.Change) fields {
	return fields{
		{"field", text(&c.Field)},
		{"old", text(&c.Old)},
		{"new", text(&c.New)},
	}
}

// commitsField names the changes that wrote an entry.
const commitsField = "commits"

// entryOf makes the entry of a document that exists.
func entryOf(snap *gcp.DocumentSnapshot) (audit.Entry, error) {
	e := audit.Entry{ID: snap.Ref.ID}
	err := decode(snap, entryFields(&e))
	e.Actor.OrganizationID, e.Request.Action = e.OrganizationID, e.Action
	return e, err
}

// defaultRetention holds for an organization without a record.
const defaultRetention = 30

// retainedUntil is when the retention of an entry ends, on the organization's plan at the time of writing. Entries on a
// plan that only another release knows are kept as long as those on any plan.
func retainedUntil(on plan.ID, written time.Time) time.Time {
	days := defaultRetention
	if p, err := plan.Get(on); err == nil {
		days = p.AuditRetentionDays
	} else if on != "" {
		for _, p := range plan.All() {
			days = max(days, p.AuditRetentionDays)
		}
	}
	return written.AddDate(0, 0, days)
}

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
		if err != nil {
			return err
		}
		if again && snaps[1].Exists() {
			return l.finishBegun(ctx, snaps[1], e.Outcome)
		}
		on := plan.Hobby // the plan of every new organization
		if snaps[0].Exists() {
			o, err := organizationOf(snaps[0])
			if err != nil {
				return err
			}
			on = o.Plan
		}
		e.ExpiresAt = retainedUntil(on, e.CreatedAt)
		_, err = l.client.commit(ctx, l.client.batch().Create(ref, encodeEntry(e)))
		return err
	})
}

// finishBegun replaces the outcome of an entry that a change wrote, if the change was not the end of its call.
func (l *AuditLog) finishBegun(ctx context.Context, snap *gcp.DocumentSnapshot, outcome string) error {
	if written, err := entryOf(snap); err != nil || written.Outcome != audit.Begun || outcome == audit.Begun {
		return err
	}
	_, err := l.client.commit(ctx, l.client.batch().Update(snap.Ref, []gcp.Update{{Path: "outcome", Value: outcome}}))
	return err
}

// Finish implements audit.Log.
func (l *AuditLog) Finish(ctx context.Context, id, outcome string, changes ...audit.Change) error {
	ref, ok := l.client.ref(auditCollection, id)
	if !ok {
		return fmt.Errorf("finish an audit entry: %w", errBadID)
	}
	update := []gcp.Update{{Path: "outcome", Value: outcome}}
	if len(changes) > 0 {
		update = append(update, gcp.Update{Path: "changes", Value: array(&changes, entryChangeFields).encode()})
	}
	return l.client.retryUntilDecided(ctx, func(ctx context.Context, _ bool) error {
		_, err := l.client.commit(ctx, l.client.batch().Update(ref, update))
		if codeOf(errors.Unwrap(err)) == codes.NotFound {
			return fmt.Errorf("finish an audit entry: %w", errors.Unwrap(err))
		}
		return err
	})
}

// Outcome implements audit.Log.
func (l *AuditLog) Outcome(ctx context.Context, id string) (string, error) {
	ref, ok := l.client.ref(auditCollection, id)
	if !ok {
		return "", fmt.Errorf("read an audit entry: %w", errBadID)
	}
	snap, err := l.client.readOne(ctx, ref)
	if err != nil || !snap.Exists() {
		return "", err
	}
	e, err := entryOf(snap)
	return e.Outcome, err
}

// encodeEntry makes the document of an entry and names the changes that write it.
func encodeEntry(e audit.Entry, changeIDs ...any) map[string]any {
	doc := entryFields(&e).encode()
	doc[commitsField] = nil
	if len(changeIDs) > 0 {
		doc[commitsField] = changeIDs
	}
	return doc
}

// List implements audit.Log.
func (l *AuditLog) List(ctx context.Context, f audit.Filter, p page.Request) (page.Page[audit.Entry], error) {
	now := l.client.now()
	return listPage(ctx, l.client, listing[audit.Entry]{
		query:      auditQuery(call.From(ctx).Caller.OrganizationID, f),
		tieBreaker: gcp.DocumentID,
		decode:     entryOf,
		position:   func(e audit.Entry) position { return position{e.CreatedAt, e.ID} },
		// Firestore deletes an entry some days after its retention.
		include: func(e audit.Entry) bool { return now.Before(e.ExpiresAt) },
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
	q := query{
		collection: auditCollection, from: f.From, before: f.To,
		equal: []equality{{"organization_id", organizationID}},
	}
	for _, e := range []equality{
		{"actor.id", f.ActorID}, {"action", f.Action}, {"target.id", f.TargetID}, {"outcome", f.Outcome},
	} {
		if e.value != "" {
			q.equal = append(q.equal, e)
		}
	}
	return q
}

// writeEntry adds the call's audit entry to a commit of the change. All changes of a call share one entry: later ones
// add their changes to it.
func (ch *change) writeEntry(b *batch, org organizationState, target audit.Target, changes []audit.Change) {
	c := ch.call
	doc := encodeEntry(audit.Entry{
		OrganizationID: c.Caller.OrganizationID, CreatedAt: ch.at, ExpiresAt: retainedUntil(org.Plan, ch.at),
		Actor: c.Caller, Action: c.Request.Action, Target: target, Outcome: c.Entry.Outcome(), Request: c.Request,
		Changes: changes,
	}, ch.id)
	if ch.first() {
		b.Create(ch.entry, doc)
		return
	}
	// The entry may not exist, if the commit of the first change was refused. If it exists, its outcome stays: this
	// commit may land after the server has written the one that the client was told.
	if ch.call.Entry.Written() {
		delete(doc, "outcome")
	}
	added, _ := doc["changes"].([]any)
	doc["changes"], doc[commitsField] = gcp.ArrayUnion(added...), gcp.ArrayUnion(ch.id)
	b.Set(ch.entry, doc, gcp.MergeAll)
}

// committedIn returns the version of the commit of the change that wrote the entry, or an empty one. Until the call
// ends, nothing else writes its entry.
func (ch *change) committedIn(entry *gcp.DocumentSnapshot) (version string) {
	if !entry.Exists() {
		return ""
	}
	commits, _ := entry.Data()[commitsField].([]any)
	if !slices.Contains(commits, any(ch.id)) {
		return ""
	}
	ch.call.Entry.MarkWritten()
	return versionOf(entry.UpdateTime)
}

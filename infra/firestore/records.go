package firestore

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"time"

	gcp "cloud.google.com/go/firestore"
	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/organization"
)

// WorkerStore implements agent.Records.
//
// Record and Remove trust the record that they are given to be one that this package returned, unchanged: while nobody
// wrote in between, its version proves it current, and the write takes one call without reading again.
type WorkerStore struct {
	client *Client
}

var _ agent.WorkerStore = (*WorkerStore)(nil)

// Load implements agent.Records.
func (r *WorkerStore) Load(ctx context.Context, id string) (agent.Agent, error) {
	ref, ok := r.client.agent(id)
	if !ok {
		return agent.Agent{}, agent.NotFound()
	}
	snaps, err := r.client.read(ctx, ref)
	if err != nil {
		return agent.Agent{}, err
	}
	if !snaps[0].Exists() {
		return agent.Agent{}, agent.NotFound()
	}
	return agentOf(snaps[0])
}

// Update implements agent.Records. Further errors: NotFound once the agent is gone. When the answer to a write is lost
// and another worker of the same generation writes before it is looked into, the closure runs on that write's result,
// too.
func (r *WorkerStore) Update(ctx context.Context, a agent.Agent, change func(*agent.Agent)) (agent.Agent, error) {
	w, ok := r.client.working(a)
	if !ok {
		return agent.Agent{}, agent.NotFound()
	}
	err := r.client.retryUntilDecided(ctx, func(ctx context.Context, again bool) error {
		if again || !w.known {
			if committed, err := w.readState(ctx); committed || err != nil {
				return err
			}
		}
		changed, err := w.record(ctx, change)
		if changed || w.looked {
			return err
		}
		// Nothing was written, so nothing has proved that the record is still the present one.
		if _, err := w.readState(ctx); err != nil {
			return err
		}
		_, err = w.record(ctx, change)
		return err
	})
	if err != nil && !errors.Is(err, agent.ErrSuperseded) {
		return agent.Agent{}, err
	}
	return w.present, err
}

// Remove implements agent.Records. Further errors: ErrSuperseded when the desired state changed since a was read:
// whatever was observed gone, it may be wanted again.
func (r *WorkerStore) Remove(ctx context.Context, a agent.Agent) error {
	w, ok := r.client.working(a)
	if !ok {
		return nil
	}
	return r.client.retryUntilDecided(ctx, func(ctx context.Context, again bool) error {
		if again || !w.known {
			_, err := w.readState(ctx)
			if fault.Is(err, fault.NotFound) {
				return nil
			}
			if err != nil {
				return err
			}
		}
		b := r.client.batch().Delete(w.ref, gcp.LastUpdateTime(w.read))
		r.client.endMetrics(b, a.ID)
		w.addUsage(b, organization.Usage{}.Minus(holding(w.present)))
		_, err := r.client.commit(ctx, b)
		return err
	})
}

// ListDue implements agent.Records. A record that can't be read is logged and left out, so that it doesn't hold up the
// others.
func (r *WorkerStore) ListDue(ctx context.Context, now time.Time, limit int) ([]agent.Agent, error) {
	snaps, err := r.client.find(ctx, query{
		collection: agentCollection, until: "work_due_at", now: now, order: []order{{"work_due_at", gcp.Asc}},
		limit: limit,
	})
	return legible(ctx, snaps), err
}

// ListByStatus implements agent.Records. A record that can't be read is left out, as with Due. Its index is one that
// Firestore keeps by itself.
func (r *WorkerStore) ListByStatus(ctx context.Context, status agent.Status, after string, limit int) ([]agent.Agent,
	error) {
	q := query{
		collection: agentCollection, equal: []equality{{"status", string(status)}},
		order: []order{{gcp.DocumentID, gcp.Asc}}, limit: limit,
	}
	if after != "" {
		q.after = []any{after}
	}
	snaps, err := r.client.find(ctx, q)
	return legible(ctx, snaps), err
}

// legible makes the records that can be read.
func legible(ctx context.Context, snaps []*gcp.DocumentSnapshot) []agent.Agent {
	agents := make([]agent.Agent, 0, len(snaps))
	for _, snap := range snaps {
		a, err := agentOf(snap)
		if err != nil {
			slog.ErrorContext(ctx, "an agent can't be read", "agent_id", snap.Ref.ID, "error", err)
			continue
		}
		agents = append(agents, a)
	}
	return agents
}

// applied runs a closure on a copy of the record and tells whether it changed anything. What makes the agent the one
// that it is stays.
func applied(before agent.Agent, apply func(*agent.Agent) error) (after agent.Agent, changed bool, err error) {
	doc := documentOf(before)
	after = doc.agent(before.ID)
	after.Version = before.Version
	if err := apply(&after); err != nil {
		return before, false, err
	}
	after.ID, after.OrganizationID, after.ChangeID, after.Version = before.ID, before.OrganizationID, before.ChangeID,
		before.Version
	return after, !reflect.DeepEqual(documentOf(after), doc), nil
}

// work is one write of a worker.
type work struct {
	client *Client
	ref    *gcp.DocumentRef
	id     string // of the write
	// generation is the one that the worker is bringing about.
	generation int64
	// present is the record as far as it is known, and read is when it was written.
	present agent.Agent
	read    time.Time
	known   bool // present has a version
	looked  bool // present was read by this call
	// orphan is true when the agent's organization has no record, and so no usage to move.
	orphan bool
}

// working begins a write to the record. It is false when the id is none that a record can have.
func (c *Client) working(a agent.Agent) (*work, bool) {
	ref, ok := c.agent(a.ID)
	read, err := writtenAt(a.Version)
	return &work{
		client: c, ref: ref, id: uuid.NewString(), generation: a.Generation, present: a, read: read, known: err == nil,
	}, ok
}

// read reads the present record and its organization. It tells whether this write was committed before. Errors:
// NotFound, ErrSuperseded.
func (w *work) readState(ctx context.Context) (committed bool, err error) {
	refs := []*gcp.DocumentRef{w.ref}
	org, ok := w.client.ref(organizationCollection, w.present.OrganizationID)
	if ok {
		refs = append(refs, org)
	}
	snaps, err := w.client.read(ctx, refs...)
	if err != nil {
		return false, err
	}
	if !snaps[0].Exists() {
		return false, agent.NotFound()
	}
	doc, err := agentDocumentIn(snaps[0])
	if err != nil {
		return false, err
	}
	w.orphan = ok && !snaps[1].Exists()
	w.present, w.read, w.known, w.looked = doc.agent(w.ref.ID), snaps[0].UpdateTime, true, true
	w.present.Version = versionAt(w.read)
	if w.present.Generation != w.generation {
		return false, agent.ErrSuperseded
	}
	return doc.WriteID == w.id, nil
}

// record runs the closure on the present record and writes the result, unless nothing changed.
func (w *work) record(ctx context.Context, change func(*agent.Agent)) (changed bool, err error) {
	after, changed, err := applied(w.present, func(a *agent.Agent) error {
		change(a)
		return nil
	})
	if err != nil || !changed {
		return false, err
	}
	doc := documentOf(after)
	doc.WriteID = w.id
	b := w.client.batch().Update(w.ref, fields(doc), gcp.LastUpdateTime(w.read))
	w.addUsage(b, holding(after).Minus(holding(w.present)))
	w.client.saveOperations(b, w.present, after)
	version, err := w.client.commit(ctx, b)
	if err != nil {
		return true, err
	}
	w.present = doc.agent(after.ID)
	w.present.Version = version
	return true, nil
}

// addUsage moves the organization's usage. It adds to whatever the usage is, so that workers don't compete for the
// organization's document.
func (w *work) addUsage(b *batch, moved organization.Usage) {
	org, ok := w.client.ref(organizationCollection, w.present.OrganizationID)
	if ok && !w.orphan && moved != (organization.Usage{}) {
		b.Update(org, moveUsage(moved))
	}
}

package firestore

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	gcp "cloud.google.com/go/firestore"
	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/logevent"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
)

// WorkerStore implements agent.WorkerStore.
//
// Update and Remove expect an agent that this package returned, unchanged. Its version proves that it is current, so
// the write takes one call and no read, unless another writer came first.
type WorkerStore struct {
	client *Client
}

var (
	_ agent.WorkerStore = (*WorkerStore)(nil)
	_ agent.RecordIndex = (*WorkerStore)(nil)
	_ agent.ExportStore = (*WorkerStore)(nil)
)

// WorkerStore is the store of agents for workers.
func (c *Client) WorkerStore() *WorkerStore { return &WorkerStore{client: c} }

// Load implements agent.WorkerStore.
func (s *WorkerStore) Load(ctx context.Context, id string) (agent.Agent, error) {
	ref, ok := s.client.agent(id)
	if !ok {
		return agent.Agent{}, agent.NotFound()
	}
	snap, err := s.client.readOne(ctx, ref)
	if err != nil {
		return agent.Agent{}, err
	}
	if !snap.Exists() {
		return agent.Agent{}, agent.NotFound()
	}
	return agentOf(snap)
}

// Update implements agent.WorkerStore. Further errors: NotFound once the agent is gone. If the answer to the write is
// lost and another worker of the same generation writes before the retry, then change runs again, on that worker's
// result.
func (s *WorkerStore) Update(ctx context.Context, a agent.Agent, change func(*agent.Agent)) (agent.Agent, error) {
	w, ok := s.client.beginWorkerWrite(a)
	if !ok {
		return agent.Agent{}, agent.NotFound()
	}
	err := w.retryUntilDecided(ctx, func(ctx context.Context, again bool) error {
		if again || !w.versioned {
			if committed, err := w.readState(ctx); committed || err != nil {
				return err
			}
		}
		changed, err := w.saveChange(ctx, change)
		if changed || w.reread {
			return err
		}
		// No write has proved that the agent is current, so read it.
		if _, err := w.readState(ctx); err != nil {
			return err
		}
		_, err = w.saveChange(ctx, change)
		return err
	})
	if err != nil && !errors.Is(err, agent.ErrSuperseded) {
		return agent.Agent{}, err
	}
	return w.agent, err
}

// AdmitExport implements agent.ExportStore.
func (s *WorkerStore) AdmitExport(ctx context.Context, a agent.Agent, snapshotID, holder string) (agent.Agent, error) {
	w, ok := s.client.beginWorkerWrite(a)
	if !ok {
		return agent.Agent{}, agent.NotFound()
	}
	err := w.retryUntilDecided(ctx, func(ctx context.Context, _ bool) error {
		committed, err := w.readState(ctx)
		if committed || err != nil && !errors.Is(err, agent.ErrSuperseded) {
			return err
		}
		now := s.client.now()
		org, err := organizationStateOf(w.organization, now)
		if err != nil {
			return err
		}
		before := org.ExportsFullAt
		after, _, err := w.agent.Edit(func(a *agent.Agent) error {
			return a.AdmitExport(&org.Organization, snapshotID, holder, s.client.exports, now)
		}, nil)
		if err != nil {
			return err
		}
		b := s.client.batch()
		if !org.ExportsFullAt.Equal(before) {
			org.save(b, []gcp.Update{setExports(org.Organization)})
		}
		return w.commitAgent(ctx, b, after)
	})
	if err != nil {
		return agent.Agent{}, err
	}
	return w.agent, nil
}

// CountSent implements agent.ExportStore.
func (s *WorkerStore) CountSent(ctx context.Context, organizationID string, bytes int64) error {
	return s.client.retryUntilDecided(ctx, func(ctx context.Context, _ bool) error {
		snap, err := s.client.Directory().read(ctx, organizationID)
		if err != nil {
			return err
		}
		now := s.client.now()
		org, err := organizationStateOf(snap, now)
		if err != nil {
			return err
		}
		if err := org.CountExport(s.client.exports, bytes, now); err != nil {
			return err
		}
		b := s.client.batch()
		org.save(b, []gcp.Update{setExports(org.Organization)})
		_, err = s.client.commit(ctx, b)
		return err
	})
}

// Remove implements agent.WorkerStore. Further errors: ErrSuperseded when the desired state changed since a was read,
// because the agent may be wanted again.
func (s *WorkerStore) Remove(ctx context.Context, a agent.Agent, d agent.Deletion) error {
	w, ok := s.client.beginWorkerWrite(a)
	if !ok {
		return nil
	}
	return w.retryUntilDecided(ctx, func(ctx context.Context, again bool) error {
		if again || !w.versioned {
			_, err := w.readState(ctx)
			if fault.Is(err, fault.NotFound) {
				return nil
			}
			if err != nil {
				return err
			}
		}
		b := s.client.batch().Delete(w.ref, gcp.LastUpdateTime(w.read))
		s.client.deleteMetrics(b, a.ID)
		if w.agent.Status == agent.Deleting {
			s.client.saveDeletion(b, agent.NewDeletionRecord(w.agent, d, s.client.now()))
		}
		w.chargeUsage(b, organization.Usage{}.Minus(w.agent.HeldUsage()))
		w.writeEvents(b, agent.DeletedEvents(w.agent))
		_, err := s.client.commit(ctx, b)
		return err
	})
}

// ListDue implements agent.WorkerStore.
func (s *WorkerStore) ListDue(ctx context.Context, now time.Time, limit int) ([]agent.Agent, error) {
	return s.listDue(ctx, "work_due_at", now, limit)
}

// ListCallsDue implements agent.WorkerStore.
func (s *WorkerStore) ListCallsDue(ctx context.Context, now time.Time, limit int) ([]agent.Agent, error) {
	return s.listDue(ctx, "calls_due_at", now, limit)
}

// listDue lists the agents whose field is due.
func (s *WorkerStore) listDue(ctx context.Context, field string, now time.Time, limit int) ([]agent.Agent, error) {
	q := query{
		collection: agentCollection, until: field, now: now,
		order: []order{{field, gcp.Asc}, {gcp.DocumentID, gcp.Asc}}, limit: limit,
	}
	var due []agent.Agent
	for {
		snaps, err := s.client.runQuery(ctx, q)
		if err != nil {
			return nil, err
		}
		due = append(due, readableAgents(ctx, snaps)...)
		if len(snaps) < q.limit || len(due) >= limit {
			return due[:min(len(due), limit)], nil
		}
		last := snaps[len(snaps)-1]
		q.after = []any{last.Data()[field], last.Ref.ID}
	}
}

// ListByStatus implements agent.WorkerStore. Firestore maintains its index automatically.
func (s *WorkerStore) ListByStatus(
	ctx context.Context, status agent.Status, after string, limit int,
) (page.Page[agent.Agent], error) {
	return s.list(ctx, []equality{{"status", string(status)}}, after, limit)
}

// ListAll lists the agents of all organizations as ListByStatus does, whatever their status is. An agent that changes
// its status between two pages is in exactly one of them.
func (s *WorkerStore) ListAll(ctx context.Context, after string, limit int) (page.Page[agent.Agent], error) {
	return s.list(ctx, nil, after, limit)
}

func (s *WorkerStore) list(ctx context.Context, equal []equality, after string, limit int,
) (page.Page[agent.Agent], error) {
	q := query{
		collection: agentCollection, equal: equal, order: []order{{gcp.DocumentID, gcp.Asc}}, limit: limit,
	}
	if after != "" {
		q.after = []any{after}
	}
	snaps, err := s.client.runQuery(ctx, q)
	if err != nil {
		return page.Page[agent.Agent]{}, err
	}
	p := page.Page[agent.Agent]{Items: readableAgents(ctx, snaps)}
	if len(snaps) == limit {
		p.Next = snaps[limit-1].Ref.ID
	}
	return p, nil
}

// Exists implements agent.RecordIndex. It reads no fields of the records.
func (s *WorkerStore) Exists(ctx context.Context, ids []string) (map[string]bool, error) {
	exist := make(map[string]bool, len(ids))
	for some := range slices.Chunk(ids, existsPage) {
		refs := make([]*gcp.DocumentRef, 0, len(some))
		for _, id := range some {
			if ref, ok := s.client.agent(id); ok {
				refs = append(refs, ref)
			}
		}
		if len(refs) == 0 {
			continue
		}
		snaps, err := s.client.read(ctx, refs...)
		if err != nil {
			return nil, err
		}
		for _, snap := range snaps {
			if snap.Exists() {
				exist[snap.Ref.ID] = true
			}
		}
	}
	return exist, nil
}

// existsPage is how many records Exists reads in one call.
const existsPage = 300

// readableAgents decodes agents. It reports those that can't be decoded and leaves them out, so that they don't block
// the others.
func readableAgents(ctx context.Context, snaps []*gcp.DocumentSnapshot) []agent.Agent {
	agents := make([]agent.Agent, 0, len(snaps))
	for _, snap := range snaps {
		if a, err := agentOf(snap); err != nil {
			reportUnreadable(ctx, snap.Ref.Parent.ID, snap.Ref.ID, err)
		} else {
			agents = append(agents, a)
		}
	}
	return agents
}

// reportUnreadable reports a record that can't be decoded.
func reportUnreadable(ctx context.Context, collection, id string, err error) {
	slog.ErrorContext(ctx, "record could not be decoded; repair its document", logevent.Key, logevent.RecordUnreadable,
		"collection", collection, "id", id, "error", err)
}

// workerWrite is one write of a worker.
type workerWrite struct {
	client *Client
	ref    *gcp.DocumentRef
	id     string
	// generation is the one that the worker applies.
	generation int64
	// agent is the newest known state of the agent, and read is when it was written.
	agent agent.Agent
	read  time.Time
	// versioned is true when the agent has a version, and reread when this write has read the agent itself.
	versioned bool
	reread    bool
	// organization is the document of the agent's organization, once it was read. An organization without a record has
	// no usage.
	organization *gcp.DocumentSnapshot
	// hasEvents is true once a commit with events was sent.
	hasEvents bool
}

// beginWorkerWrite begins a write of the agent. It is false when no agent can have the id.
func (c *Client) beginWorkerWrite(a agent.Agent) (*workerWrite, bool) {
	ref, ok := c.agent(a.ID)
	read, err := updateTimeOf(a.Version)
	return &workerWrite{
		client: c, ref: ref, id: uuid.NewString(), generation: a.Generation, agent: a, read: read,
		versioned: err == nil,
	}, ok
}

// readState reads the agent and its organization, and reports whether this write was committed before. Errors:
// NotFound, ErrSuperseded.
func (w *workerWrite) readState(ctx context.Context) (committed bool, err error) {
	refs := []*gcp.DocumentRef{w.ref}
	org, ok := w.client.ref(organizationCollection, w.agent.OrganizationID)
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
	a, writeID, err := decodeAgent(w.ref.ID, inSnapshot(snaps[0]))
	if err != nil {
		return false, err
	}
	a.Version = versionOf(snaps[0].UpdateTime)
	if ok {
		w.organization = snaps[1]
	}
	w.agent, w.read, w.versioned, w.reread = a, snaps[0].UpdateTime, true, true
	if a.Generation != w.generation {
		return false, agent.ErrSuperseded
	}
	return writeID == w.id, nil
}

// saveChange applies change to the agent and commits the result, unless nothing changed.
func (w *workerWrite) saveChange(ctx context.Context, change func(*agent.Agent)) (changed bool, err error) {
	after, changed, err := w.agent.Edit(func(a *agent.Agent) error {
		change(a)
		return nil
	}, nil)
	if err != nil || !changed {
		return false, err
	}
	return true, w.commitAgent(ctx, w.client.batch(), after)
}

// commitAgent commits a changed agent, with what the batch has already.
func (w *workerWrite) commitAgent(ctx context.Context, b *batch, after agent.Agent) error {
	doc := encodeAgent(after, w.id)
	b.Update(w.ref, updates(doc), gcp.LastUpdateTime(w.read))
	w.chargeUsage(b, after.HeldUsage().Minus(w.agent.HeldUsage()))
	w.client.saveOperations(b, w.agent, after)
	w.writeEvents(b, agent.Events(w.agent, after))
	version, err := w.client.commit(ctx, b)
	if err != nil {
		return err
	}
	w.agent, _, err = decodeAgent(after.ID, inMap(doc))
	w.agent.Version = version
	return err
}

// writeEvents adds events of the agent to a commit.
func (w *workerWrite) writeEvents(b *batch, events []event.Draft) {
	w.client.writeEvents(b, w.agent.OrganizationID, w.agent.ID, events)
	w.hasEvents = w.hasEvents || len(events) > 0
}

// retryUntilDecided repeats a write until it is decided, and reports its events.
func (w *workerWrite) retryUntilDecided(ctx context.Context, try func(ctx context.Context, again bool) error) error {
	err := w.client.retryUntilDecided(ctx, try)
	if err == nil && w.hasEvents {
		w.client.reportEvents(ctx, w.agent.OrganizationID)
	}
	return err
}

// chargeUsage adds to the organization's usage, or subtracts from it. It increments whatever the usage is, so that
// workers don't compete for the organization's document.
func (w *workerWrite) chargeUsage(b *batch, moved organization.Usage) {
	org, ok := w.client.ref(organizationCollection, w.agent.OrganizationID)
	if ok && (w.organization == nil || w.organization.Exists()) && moved != (organization.Usage{}) {
		b.Update(org, incrementUsage(moved))
	}
}

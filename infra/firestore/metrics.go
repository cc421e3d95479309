package firestore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	gcp "cloud.google.com/go/firestore"
	"google.golang.org/grpc/codes"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/metrics"
)

// Metrics implements metrics.Store and metrics.Records.
//
// A snapshot is a document of its own, so that what is measured every few minutes neither changes the version of the
// agent's record nor competes with those who write it. It is created in the commit that creates the agent and deleted
// in the one that deletes it: a route that reads it alone knows by it that the agent exists, and whose it is.
type Metrics struct {
	client *Client
}

var (
	_ metrics.Store       = (*Metrics)(nil)
	_ metrics.WorkerStore = (*Metrics)(nil)
)

// Metrics is the store of what is measured of agents.
func (c *Client) Metrics() *Metrics { return &Metrics{client: c} }

// beginMetrics has the commit that creates an agent create its snapshot, and endMetrics the one that deletes it delete
// that.
func (c *Client) beginMetrics(b *batch, a agent.Agent) {
	if ref, ok := c.ref(metricsCollection, a.ID); ok {
		b.Create(ref, metricsDocument{OrganizationID: a.OrganizationID})
	}
}

func (c *Client) endMetrics(b *batch, agentID string) {
	if ref, ok := c.ref(metricsCollection, agentID); ok {
		b.Delete(ref)
	}
}

// Get implements metrics.Store. It makes no call when the snapshot was read together with the caller's key.
func (m *Metrics) Get(ctx context.Context, agentID string) (metrics.Snapshot, error) {
	d := metrics.Document(agentID)
	ref, ok := m.client.ref(d.Collection, d.ID)
	if !ok || d.Collection == "" {
		return metrics.Snapshot{}, metrics.NotFound()
	}
	fetched, ok := document.Fetched(ctx, d)
	snap, _ := fetched.(*gcp.DocumentSnapshot)
	if !ok || snap == nil {
		snaps, err := m.client.read(ctx, ref)
		if err != nil {
			return metrics.Snapshot{}, err
		}
		snap = snaps[0]
	}
	if !snap.Exists() {
		return metrics.Snapshot{}, metrics.NotFound()
	}
	s := snapshotOf(ctx, snap)
	if caller := identity.From(ctx); s.OrganizationID != caller.OrganizationID || caller.OrganizationID == "" {
		return metrics.Snapshot{}, metrics.NotFound()
	}
	return s, nil
}

// MarkViewed implements metrics.Store. Close waits for what it began.
func (m *Metrics) MarkViewed(ctx context.Context, s metrics.Snapshot) {
	now := m.client.now()
	ref, ok := m.client.ref(metricsCollection, s.AgentID)
	if !ok || s.Version == "" || now.Sub(s.LookedAt) < metrics.LookInterval ||
		!m.client.touched.claim(ref.Path, now, metrics.LookInterval) {
		return
	}
	m.client.touches.run(ctx, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, touchTimeout)
		defer cancel()
		// An update never creates, so the snapshot of an agent that is gone stays gone.
		_, err := m.client.commit(ctx, m.client.batch().Update(ref, []gcp.Update{{Path: "looked_at", Value: now}}))
		if err != nil && codeOf(err) != codes.NotFound {
			slog.WarnContext(ctx, "a look at an agent's metrics was not recorded", "agent_id", s.AgentID, "error", err)
		}
	})
}

// Load implements metrics.Records.
func (m *Metrics) Load(ctx context.Context, agentIDs []string) (map[string]metrics.Snapshot, error) {
	var refs []*gcp.DocumentRef
	for _, id := range agentIDs {
		if ref, ok := m.client.ref(metricsCollection, id); ok {
			refs = append(refs, ref)
		}
	}
	if len(refs) == 0 {
		return nil, nil
	}
	snaps, err := m.client.read(ctx, refs...)
	if err != nil {
		return nil, err
	}
	found := make(map[string]metrics.Snapshot, len(snaps))
	for _, snap := range snaps {
		if snap.Exists() {
			found[snap.Ref.ID] = snapshotOf(ctx, snap)
		}
	}
	return found, nil
}

// ListViewedSince implements metrics.Records.
func (m *Metrics) ListViewedSince(ctx context.Context, since time.Time, limit int) ([]metrics.Snapshot, error) {
	snaps, err := m.client.find(ctx, query{
		collection: metricsCollection, since: "looked_at", now: since, order: []order{{"looked_at", gcp.Asc}},
		limit: limit,
	})
	if err != nil {
		return nil, err
	}
	found := make([]metrics.Snapshot, len(snaps))
	for i, snap := range snaps {
		found[i] = snapshotOf(ctx, snap)
	}
	return found, nil
}

// Save implements metrics.Records. A snapshot that was read is written if nobody wrote it since. A new one, of an agent
// that was created without, is created in a commit that proves the agent's record to be there still: it writes what
// stands there already, which changes neither the record nor its version.
func (m *Metrics) Save(ctx context.Context, s metrics.Snapshot, agentVersion string) error {
	ref, ok := m.client.ref(metricsCollection, s.AgentID)
	if !ok {
		return metrics.NotFound()
	}
	doc, err := metricsDocumentOf(s)
	if err != nil {
		return fmt.Errorf("save the metrics of agent %s: %w", s.AgentID, err)
	}
	b := m.client.batch()
	if read, err := writtenAt(s.Version); err == nil {
		b.Update(ref, doc.collected(), gcp.LastUpdateTime(read))
	} else {
		version, err := writtenAt(agentVersion)
		owner, ok := m.client.agent(s.AgentID)
		if err != nil || !ok {
			return fmt.Errorf("save the metrics of agent %s: %w", s.AgentID, errNoVersion)
		}
		b.Update(owner, []gcp.Update{{Path: "organization_id", Value: s.OrganizationID}},
			gcp.LastUpdateTime(version)).Create(ref, doc)
	}
	_, err = m.client.commit(ctx, b)
	var u *undecided
	switch {
	case errors.As(err, &u) && u.unknown:
		return unavailable("commit", u.cause)
	case codeOf(err) == codes.NotFound:
		return metrics.NotFound()
	case errors.As(err, &u):
		return metrics.ErrChanged
	default:
		return err
	}
}

// maxCells bounds how many cells' progress is read: more than there will be.
const maxCells = 1000

// Progress implements metrics.Records.
func (m *Metrics) Progress(ctx context.Context) (map[string]metrics.Progress, error) {
	snaps, err := m.client.find(ctx,
		query{collection: progressCollection, order: []order{{gcp.DocumentID, gcp.Asc}}, limit: maxCells})
	if err != nil {
		return nil, err
	}
	cells := make(map[string]metrics.Progress, len(snaps))
	for _, snap := range snaps {
		d, err := decode[progressDocument](snap)
		if err != nil {
			return nil, err
		}
		cells[snap.Ref.ID] = metrics.Progress{Until: timeOf(d.Until), Next: timeOf(d.Next)}
	}
	return cells, nil
}

// SetProgress implements metrics.Records.
func (m *Metrics) SetProgress(ctx context.Context, cells map[string]metrics.Progress) error {
	b := m.client.batch()
	for cell, p := range cells {
		ref, ok := m.client.ref(progressCollection, cell)
		if !ok {
			return fmt.Errorf("record the progress of cell %q: %w", cell, errBadID)
		}
		b.Set(ref, progressDocument{Until: nullable(p.Until), Next: nullable(p.Next)})
	}
	_, err := m.client.commit(ctx, b)
	if err != nil {
		return failure("commit", err)
	}
	return nil
}

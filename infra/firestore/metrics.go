package firestore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	gcp "cloud.google.com/go/firestore"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/metrics"
)

// Metrics implements metrics.Store and metrics.WorkerStore.
//
// A snapshot is a separate document, so that collecting every few minutes neither changes the agent's version nor
// competes with writes of the agent. The commit that creates an agent creates its snapshot, and the commit that deletes
// the agent deletes it. So a route can read the snapshot alone and still know that the agent exists and whose it is.
type Metrics struct {
	client *Client
}

var (
	_ metrics.Store       = (*Metrics)(nil)
	_ metrics.WorkerStore = (*Metrics)(nil)
)

// Metrics is the store of agents' metrics.
func (c *Client) Metrics() *Metrics { return &Metrics{client: c} }

// metricsFields lists what is stored of a snapshot. Only organization_id and looked_at have an index.
func metricsFields(s *metrics.Snapshot) fields {
	return fields{
		{"organization_id", text(&s.OrganizationID)},
		{"looked_at", timestamp(&s.ViewedAt)},
		{"collected_at", timestamp(&s.CollectedAt)},
		{"figures", group(fields{
			{"cpu_pct", optionalFloat(&s.Figures.CPUPct)},
			{"mem_pct", optionalFloat(&s.Figures.MemPct)},
			{"pvc_pct", optionalFloat(&s.Figures.PVCPct)},
			{"uptime_pct", optionalFloat(&s.Figures.UptimePct)},
			{"cpu_cores", optionalFloat(&s.Figures.CPUCores)},
			{"memory_bytes", optionalFloat(&s.Figures.MemoryBytes)},
			{"latency_millis", optionalFloat(&s.Figures.LatencyMillis)},
			{"restarts", float(&s.Figures.Restarts)},
		})},
		{"restarts_seen", number(&s.RestartsSeen)},
		{"counted", group(fields{
			{"requests", float(&s.Counted.Requests)},
			{"errors", float(&s.Counted.Errors)},
			{"until", timestamp(&s.Counted.Until)},
		})},
		{"rings", compactGroup(fields{
			{"cpu_hour", ring(&s.CPU.Hour)},
			{"cpu_day", ring(&s.CPU.Day)},
			{"memory_hour", ring(&s.Memory.Hour)},
			{"memory_day", ring(&s.Memory.Day)},
			{"requests_hour", ring(&s.Requests.Hour)},
			{"requests_day", ring(&s.Requests.Day)},
			{"errors_hour", ring(&s.Errors.Hour)},
			{"errors_day", ring(&s.Errors.Day)},
			{"up", ring(&s.Up)},
			{"due", ring(&s.Due)},
			{"restarted", ring(&s.Restarted)},
		})},
	}
}

// ringPlace stores a ring as bytes. Arrays would take ten times as long to read. A stored ring of another shape is
// ignored: the metrics are collected again.
type ringPlace struct{ at *metrics.Ring }

func ring(at *metrics.Ring) place { return ringPlace{at} }

func (p ringPlace) encode() any {
	if p.at.Like(metrics.Ring{}) {
		return nil
	}
	b, err := p.at.MarshalBinary()
	if err != nil {
		return nil // a ring can always be encoded
	}
	return b
}

func (p ringPlace) decode(name string, value any) error {
	b, err := cast[[]byte](name, value)
	if err != nil || len(b) == 0 {
		return err
	}
	stored := *p.at
	if err := stored.UnmarshalBinary(b); err != nil {
		return fmt.Errorf("the field %s: %w", name, err)
	}
	if stored.Like(*p.at) {
		*p.at = stored
	}
	return nil
}

// snapshotOf makes the snapshot of a document that exists. It logs and leaves empty what can't be decoded, because it
// is collected again.
func snapshotOf(ctx context.Context, snap *gcp.DocumentSnapshot) metrics.Snapshot {
	s := metrics.New(snap.Ref.ID, "")
	s.Version = versionOf(snap.UpdateTime)
	rest, err := decodeWithRest(snap, metricsFields(&s))
	if s.Rest = rest; err != nil {
		slog.ErrorContext(ctx, "metrics could not be decoded; they will be collected again", "agent_id", snap.Ref.ID,
			"error", err)
	}
	return s
}

// createMetrics adds an agent's empty snapshot to the commit that creates the agent.
func (c *Client) createMetrics(b *batch, a agent.Agent) {
	if ref, ok := c.ref(metricsCollection, a.ID); ok {
		b.Create(ref, metricsFields(&metrics.Snapshot{OrganizationID: a.OrganizationID}).encode())
	}
}

// deleteMetrics deletes an agent's snapshot in the commit that deletes the agent.
func (c *Client) deleteMetrics(b *batch, agentID string) {
	if ref, ok := c.ref(metricsCollection, agentID); ok {
		b.Delete(ref)
	}
}

// Get implements metrics.Store. It makes no call when the snapshot was read together with the caller's API key.
func (m *Metrics) Get(ctx context.Context, agentID string) (metrics.Snapshot, error) {
	d := metrics.Document(agentID)
	ref, ok := m.client.ref(d.Collection, d.ID)
	if !ok || d.Collection == "" {
		return metrics.Snapshot{}, metrics.NotFound()
	}
	c := call.From(ctx)
	snap, err := m.client.readUnlessFetched(ctx, ref, c.Fetched.Snapshot(d))
	if err != nil {
		return metrics.Snapshot{}, err
	}
	if !snap.Exists() {
		return metrics.Snapshot{}, metrics.NotFound()
	}
	s := snapshotOf(ctx, snap)
	if own := c.Caller.OrganizationID; s.OrganizationID != own || own == "" {
		return metrics.Snapshot{}, metrics.NotFound()
	}
	return s, nil
}

// currentPage is how many documents ListCurrent reads in one call. No plan has as many agents.
const currentPage = 300

// ListCurrent implements metrics.Store. It reads two documents an agent: the record, without what can be large, and the
// snapshot, without its series.
func (m *Metrics) ListCurrent(ctx context.Context) ([]metrics.Current, error) {
	organizationID := call.From(ctx).Caller.OrganizationID
	if organizationID == "" {
		return nil, nil
	}
	own := func(collection string, only ...string) query {
		return query{
			collection: collection, equal: []equality{{"organization_id", organizationID}}, only: only,
			limit: currentPage,
		}
	}
	snapshots := map[string]metrics.Snapshot{}
	var read errgroup.Group
	read.Go(func() error {
		q := own(metricsCollection, "organization_id", "collected_at", "figures", "counted")
		return m.client.eachDocument(ctx, q, func(snap *gcp.DocumentSnapshot) error {
			snapshots[snap.Ref.ID] = snapshotOf(ctx, snap)
			return nil
		})
	})
	var found []metrics.Current
	q := own(agentCollection, "organization_id", "name", "plan", "region", "status", "image")
	err := m.client.eachDocument(ctx, q, func(snap *gcp.DocumentSnapshot) error {
		a, err := agentOf(snap)
		if err != nil {
			reportUnreadable(ctx, agentCollection, snap.Ref.ID, err)
			return nil
		}
		if a.Status != agent.Deleting {
			found = append(found, metrics.Current{Agent: a})
		}
		return nil
	})
	if err = errors.Join(err, read.Wait()); err != nil {
		return nil, err
	}
	for i := range found {
		var ok bool
		if found[i].Snapshot, ok = snapshots[found[i].Agent.ID]; !ok {
			found[i].Snapshot = metrics.New(found[i].Agent.ID, organizationID)
		}
	}
	return found, nil
}

// MarkViewed implements metrics.Store. It writes in the background; Flush and Close wait for it.
func (m *Metrics) MarkViewed(ctx context.Context, s metrics.Snapshot) {
	now := m.client.now()
	ref, ok := m.client.ref(metricsCollection, s.AgentID)
	if !ok || s.Version == "" || now.Sub(s.ViewedAt) < metrics.ViewInterval ||
		!m.client.claimed.claim(ref.Path, now, metrics.ViewInterval) {
		return
	}
	m.client.background.run(ctx, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, touchTimeout)
		defer cancel()
		// An update never creates a document, so the snapshot of a deleted agent stays deleted.
		_, err := m.client.commit(ctx, m.client.batch().Update(ref, []gcp.Update{{Path: "looked_at", Value: now}}))
		if err != nil && codeOf(err) != codes.NotFound {
			slog.WarnContext(ctx, "view of an agent's metrics could not be recorded", "agent_id", s.AgentID, "error",
				err)
		}
	})
}

// Load implements metrics.WorkerStore.
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

// ListViewedSince implements metrics.WorkerStore.
func (m *Metrics) ListViewedSince(ctx context.Context, since time.Time, limit int) ([]metrics.Snapshot, error) {
	snaps, err := m.client.runQuery(ctx, query{
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

// Save implements metrics.WorkerStore. It writes a snapshot that was read, unless another collector wrote it since. It
// creates a new one for an agent that has none. That commit also writes the agent's organization_id, which is the same
// as before: so it fails when the agent is gone, and changes neither the agent nor its version.
func (m *Metrics) Save(ctx context.Context, s metrics.Snapshot, agentVersion string) error {
	ref, ok := m.client.ref(metricsCollection, s.AgentID)
	if !ok {
		return metrics.NotFound()
	}
	doc := metricsFields(&s).encodeWith(s.Rest)
	b := m.client.batch()
	if read, err := updateTimeOf(s.Version); err == nil {
		var collected []gcp.Update // not looked_at, which routes write
		for _, name := range []string{"collected_at", "figures", "restarts_seen", "counted", "rings"} {
			collected = append(collected, gcp.Update{Path: name, Value: doc[name]})
		}
		b.Update(ref, collected, gcp.LastUpdateTime(read))
	} else {
		version, err := updateTimeOf(agentVersion)
		owner, ok := m.client.agent(s.AgentID)
		if err != nil || !ok {
			return fmt.Errorf("save the metrics of agent %s: %w", s.AgentID, errNoVersion)
		}
		b.Update(owner, []gcp.Update{{Path: "organization_id", Value: s.OrganizationID}},
			gcp.LastUpdateTime(version)).Create(ref, doc)
	}
	_, err := m.client.commit(ctx, b)
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

func progressFields(p *metrics.Progress) fields {
	return fields{
		{"until", timestamp(&p.Until)},
		{"next", timestamp(&p.Next)},
	}
}

// maxCells is more cells than there will be.
const maxCells = 1000

// Progress implements metrics.WorkerStore.
func (m *Metrics) Progress(ctx context.Context) (map[string]metrics.Progress, error) {
	snaps, err := m.client.runQuery(ctx,
		query{collection: progressCollection, order: []order{{gcp.DocumentID, gcp.Asc}}, limit: maxCells})
	if err != nil {
		return nil, err
	}
	cells := make(map[string]metrics.Progress, len(snaps))
	for _, snap := range snaps {
		var p metrics.Progress
		if err := decode(snap, progressFields(&p)); err != nil {
			return nil, err
		}
		cells[snap.Ref.ID] = p
	}
	return cells, nil
}

// SetProgress implements metrics.WorkerStore.
func (m *Metrics) SetProgress(ctx context.Context, cells map[string]metrics.Progress) error {
	b := m.client.batch()
	for cell, p := range cells {
		ref, ok := m.client.ref(progressCollection, cell)
		if !ok {
			return fmt.Errorf("record the progress of cell %q: %w", cell, errBadID)
		}
		b.Set(ref, progressFields(&p).encode(), gcp.MergeAll)
	}
	_, err := m.client.commit(ctx, b)
	if err != nil {
		return faultOf("commit", err)
	}
	return nil
}

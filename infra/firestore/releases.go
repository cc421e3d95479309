package firestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	gcp "cloud.google.com/go/firestore"
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/release"
)

// Releases implements release.Store.
type Releases struct{ client *Client }

var _ release.Store = (*Releases)(nil)

// Releases is the store of releases.
func (c *Client) Releases() *Releases { return &Releases{client: c} }

// maxDue is more than the releases that are under way.
const maxDue = 50

func releaseFields(r *release.Release) fields {
	return fields{
		{"image", text(&r.Image)},
		{"number", number(&r.Number)},
		{"target", compactGroup(choiceFields(&r.Target))},
		{"cells", array(&r.Cells, cellReferenceFields)},
		{"former", compactGroup(choiceFields(&r.Former))},
		{"catalogued", flag(&r.Catalogued)},
		{"waves", numbers(&r.Waves)},
		{"soak", number(&r.Soak)},
		{"max_failed", number(&r.MaxFailed)},
		{"cell", text(&r.Cell)},
		{"state", text(&r.State)},
		{"reason", text(&r.Reason)},
		{"successor", text(&r.Successor)},
		{"started_by", text(&r.StartedBy)},
		{"created_at", timestamp(&r.CreatedAt)},
		{"updated_at", timestamp(&r.UpdatedAt)},
		{"due_at", timestamp(&r.DueAt)},
		{"total", number(&r.Total)},
		{"surveyed", flag(&r.Surveyed)},
		{"wave", number(&r.Wave)},
		{"wave_at", timestamp(&r.WaveAt)},
		{"lap", compactGroup(lapFields(&r.Lap))},
		{"laps", number(&r.Laps)},
		{"counts", compactGroup(fields{
			{"moved", number(&r.Counts.Moved)},
			{"updated", number(&r.Counts.Updated)},
			{"reverted", number(&r.Counts.Reverted)},
			{"interrupted", number(&r.Counts.Interrupted)},
		})},
		{"forgiven", number(&r.Forgiven)},
		{"former_default", text(&r.FormerDefault)},
		{"default_set", flag(&r.DefaultSet)},
		{"failures", array(&r.Failures, releaseFailureFields)},
	}
}

func cellReferenceFields(c *release.CellReference) fields {
	return fields{{"cell", text(&c.Cell)}, {"reference", text(&c.Reference)}}
}

func lapFields(l *release.Lap) fields {
	return fields{
		{"cursor", text(&l.Cursor)},
		{"wrapped", flag(&l.Wrapped)},
		{"ended", flag(&l.Ended)},
		{"moved", number(&l.Moved)},
		{"busy", number(&l.Busy)},
		{"pinned", number(&l.Pinned)},
		{"deferred", number(&l.Deferred)},
		{"waiting", number(&l.Waiting)},
		{"failing", number(&l.Failing)},
	}
}

func releaseFailureFields(f *release.Failure) fields {
	return fields{{"agent_id", text(&f.AgentID)}, {"reason", text(&f.Reason)}, {"at", timestamp(&f.At)}}
}

func releaseOf(snap *gcp.DocumentSnapshot) (release.Release, error) {
	r := release.Release{ID: snap.Ref.ID, Revision: versionOf(snap.UpdateTime)}
	rest, err := decodeWithRest(snap, releaseFields(&r))
	r.Rest = rest
	return r, err
}

// Create implements release.Store. The commit also names the release in the image's former one, so that nothing reopens
// that one.
func (s *Releases) Create(ctx context.Context, r release.Release) (release.Release, error) {
	b := s.client.batch()
	former, err := s.latest(ctx, r.Image)
	if err != nil {
		return release.Release{}, err
	}
	r.Number = 1
	if former != nil {
		if former.Open() {
			return release.Release{}, release.AlreadyOpen(former.ID)
		}
		r.Number = former.Number + 1
	}
	r.ID = release.ID(r.Image, r.Number)
	ref, ok := s.client.ref(releaseCollection, r.ID)
	if !ok {
		return release.Release{}, errBadID
	}
	b.Create(ref, releaseFields(&r).encode())
	if former != nil {
		formerRef, _ := s.client.ref(releaseCollection, former.ID)
		read, err := updateTimeOf(former.Revision)
		if err != nil {
			return release.Release{}, err
		}
		b.Update(formerRef, []gcp.Update{{Path: "successor", Value: r.ID}, {Path: "due_at", Value: nil}},
			gcp.LastUpdateTime(read))
	}
	revision, err := s.client.commit(ctx, b)
	var lost *undecided
	switch {
	case errors.As(err, &lost) && codeOf(lost.cause) == codes.AlreadyExists:
		return release.Release{}, release.AlreadyOpen(r.ID)
	case errors.As(err, &lost): // also of a write of the former release, or without another one
		return release.Release{}, unavailable("commit", lost.cause)
	}
	r.Revision = revision
	return r, err
}

// latest reads the latest release of an image; nil if there is none.
func (s *Releases) latest(ctx context.Context, image string) (*release.Release, error) {
	found, err := s.list(ctx, query{
		collection: releaseCollection,
		equal:      []equality{{"image", image}},
		order:      []order{{"number", gcp.Desc}},
		limit:      1,
	})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// Get implements release.Store.
func (s *Releases) Get(ctx context.Context, id string) (release.Release, error) {
	ref, ok := s.client.ref(releaseCollection, id)
	if !ok {
		return release.Release{}, release.NotFound()
	}
	snap, err := s.client.readOne(ctx, ref)
	switch {
	case err != nil:
		return release.Release{}, err
	case !snap.Exists():
		return release.Release{}, release.NotFound()
	}
	return releaseOf(snap)
}

// List implements release.Store.
func (s *Releases) List(ctx context.Context, limit int) ([]release.Release, error) {
	return s.list(ctx, query{
		collection: releaseCollection, order: []order{{"created_at", gcp.Desc}}, limit: limit,
	})
}

// ListDue implements release.Store.
func (s *Releases) ListDue(ctx context.Context, now time.Time) ([]release.Release, error) {
	return s.list(ctx, query{
		collection: releaseCollection, until: "due_at", now: now, order: []order{{"due_at", gcp.Asc}}, limit: maxDue,
	})
}

func (s *Releases) list(ctx context.Context, q query) ([]release.Release, error) {
	snaps, err := s.client.runQuery(ctx, q)
	if err != nil {
		return nil, err
	}
	found := make([]release.Release, 0, len(snaps))
	for _, snap := range snaps {
		r, err := releaseOf(snap)
		if err != nil {
			reportUnreadable(ctx, releaseCollection, snap.Ref.ID, err)
			continue
		}
		found = append(found, r)
	}
	return found, nil
}

// Save implements release.Store. No change of a release changes what an organization holds.
func (s *Releases) Save(ctx context.Context, r release.Release, changes []release.Change) (release.Release, error) {
	ref, ok := s.client.ref(releaseCollection, r.ID)
	read, err := updateTimeOf(r.Revision)
	if !ok || err != nil {
		return release.Release{}, release.NotFound()
	}
	b := s.client.batch().Update(ref, updates(releaseFields(&r).encodeWith(r.Rest)), gcp.LastUpdateTime(read))
	var reports []string
	for _, c := range changes {
		events := agent.Events(c.Before, c.After)
		if err := s.addChange(b, c, events); err != nil {
			return release.Release{}, err
		}
		if len(events) > 0 {
			reports = append(reports, c.After.OrganizationID)
		}
	}
	revision, err := s.client.commit(ctx, b)
	var lost *undecided
	switch {
	case errors.As(err, &lost) && lost.unknown:
		return release.Release{}, unavailable("commit", lost.cause)
	case errors.As(err, &lost):
		return release.Release{}, release.ErrSuperseded
	case err != nil:
		return release.Release{}, err
	}
	for _, organization := range reports {
		s.client.reportEvents(ctx, organization)
	}
	r.Revision = revision
	return r, nil
}

// addChange adds the change of an agent to a commit.
func (s *Releases) addChange(b *batch, c release.Change, events []event.Draft) error {
	ref, ok := s.client.agent(c.After.ID)
	read, err := updateTimeOf(c.Before.Version)
	if !ok || err != nil {
		return fmt.Errorf("save the agent %s: %w", c.After.ID, errors.Join(err, errBadID))
	}
	b.Update(ref, updates(encodeAgent(c.After, uuid.NewString())), gcp.LastUpdateTime(read))
	s.client.writeEvents(b, c.After.OrganizationID, c.After.ID, events)
	return nil
}

// ListWatched lists the agents that a release watches.
func (s *WorkerStore) ListWatched(ctx context.Context, releaseID string, limit int) ([]agent.Agent, error) {
	snaps, err := s.client.runQuery(ctx, query{
		collection: agentCollection, equal: []equality{{"watched_by", releaseID}},
		order: []order{{gcp.DocumentID, gcp.Asc}}, limit: limit,
	})
	if err != nil {
		return nil, err
	}
	return readableAgents(ctx, snaps), nil
}

package firestore

import (
	"context"
	"slices"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/event"
)

func eventQuery(organizationID string, f event.Filter) query {
	q := query{collection: eventCollection, equal: []equality{{"organization_id", organizationID}}}
	if f.AgentID != "" {
		q.equal = append(q.equal, equality{"agent_id", f.AgentID})
	}
	if f.Type != "" {
		q.contains = equality{"types", string(f.Type)}
	}
	return q
}

// List implements event.Log.
func (l *EventLog) List(ctx context.Context, organizationID string, f event.Filter, after event.ID, limit int) (
	event.Batch, error,
) {
	if _, ok := l.client.ref(organizationCollection, organizationID); !ok {
		return event.Batch{Next: after}, nil
	}
	if f.MembersOnly && f.Type != "" && !f.Type.ForMembers() {
		return event.Batch{Next: max(after, l.idleCursor())}, nil
	}
	if after == "" {
		return l.newest(ctx, organizationID, f, limit)
	}
	if after != event.Start && l.client.now().Sub(after.Time()) > event.Retention {
		return event.Batch{}, event.CursorExpired()
	}
	scan := func(from time.Time) (event.Batch, error) {
		s := eventScan{
			log: l, organizationID: organizationID, filter: f, after: after, limit: limit,
			query: eventQuery(organizationID, f), read: map[string]readRecord{},
		}
		s.query.since, s.query.now = requestedField, from
		s.query.order = []order{{requestedField, gcp.Asc}, {gcp.DocumentID, gcp.Asc}}
		s.query.limit = min(l.page, limit+10)
		return s.run(ctx)
	}
	from, recent := after.Time().Add(-settling), after.Time().Add(-recently)
	if read := l.client.recent.read(organizationID, from, recent, after); read >= l.client.recent.enough {
		b, err := scan(recent)
		if err != nil {
			return event.Batch{}, err
		}
		// The count comes last: it has what was committed until the scan.
		if n, err := l.client.countRecords(ctx, organizationID, from, recent); err != nil || n == read {
			return b, err
		}
	}
	return scan(from)
}

// maxPages bounds the pages that a call reads, because a reader may ask for events of which the log has few.
const maxPages = 25

// newest reads the newest events, or those among the newest records. It leaves out those that were committed much later
// than they were requested: the reader goes on after the latest commit.
func (l *EventLog) newest(ctx context.Context, organizationID string, f event.Filter, limit int) (event.Batch, error) {
	q := eventQuery(organizationID, f)
	q.order = []order{{requestedField, gcp.Desc}, {gcp.DocumentID, gcp.Desc}}
	q.limit = limit + 10
	var events []event.Event
	next := event.Start
	for n, enough := 0, false; !enough && n < maxPages; n++ {
		snaps, err := l.client.runQuery(ctx, q)
		if err != nil {
			return event.Batch{}, err
		}
		if len(snaps) > 0 && next == event.Start {
			next = l.idleCursor()
		}
		for _, e := range readableEvents(ctx, snaps) {
			if f.Matches(e) {
				events = append(events, e)
			}
		}
		slices.SortFunc(events, compareEvents)
		if enough = len(snaps) < q.limit; !enough {
			q.after, q.limit = requestedAt(snaps[len(snaps)-1]), max(q.limit, l.page)
			earliest, _ := q.after[0].(time.Time)
			enough = len(events) >= limit && earliest.Before(events[len(events)-limit].CreatedAt.Add(-clockSkew))
		}
	}
	events = events[max(0, len(events)-limit):]
	if len(events) > 0 {
		// The cursor of an event that is about to expire would soon be refused.
		if last := events[len(events)-1].ID; l.client.now().Sub(last.Time()) < event.Retention-cursorMargin {
			next = last
		}
	}
	return event.Batch{Events: events, Next: next}, nil
}

// idleCursor is the cursor after all that is settled, for a reader that has read all that was committed until now. With
// it, a reader of whom the filter keeps all events does not read them again each time.
func (l *EventLog) idleCursor() event.ID { return event.After(settled(l.client.databaseClock.now())) }

// requestedAt is the place of a record in a query by request times.
func requestedAt(snap *gcp.DocumentSnapshot) []any {
	return []any{snap.Data()[requestedField], snap.Ref.ID}
}

// eventScan reads the events after a cursor.
type eventScan struct {
	log            *EventLog
	organizationID string
	filter         event.Filter
	after          event.ID
	limit          int
	query          query
	// read are the records that the scan has read.
	read map[string]readRecord
	// horizon is when the first page was read. What was committed later may be missing in that page.
	horizon time.Time
	found   []event.Event
	// later is true if an event after the horizon was found.
	later bool
}

// run reads pages until it has as many events as it may return of which it is known that no earlier one is missing, or
// until it has read enough.
func (s *eventScan) run(ctx context.Context) (event.Batch, error) {
	defer func() { s.log.client.recent.remember(s.organizationID, s.read) }()
	beyond := 0 // pages after the cursor; those before it must be read again
	for {
		snaps, err := s.log.client.runQuery(ctx, s.query)
		if err != nil {
			return event.Batch{}, err
		}
		s.add(ctx, snaps)
		if len(snaps) < s.query.limit {
			return s.result(len(s.found), false), nil
		}
		// Records of later pages were requested later, and so committed later.
		s.query.after, s.query.limit = requestedAt(snaps[len(snaps)-1]), s.log.page
		last, _ := s.query.after[0].(time.Time)
		reached := event.After(last.Add(-clockSkew - time.Microsecond)) // the precision of commits
		reached = min(reached, event.After(s.horizon))
		if reached > s.after {
			beyond++
		}
		complete := 0
		for complete < len(s.found) && s.found[complete].ID <= reached {
			complete++
		}
		switch {
		case complete >= s.limit:
			return s.result(complete, true), nil
		case beyond >= maxPages:
			return event.Batch{Events: s.found[:complete], Next: reached, More: true}, nil
		}
	}
}

// add adds the events of a page in their order.
func (s *eventScan) add(ctx context.Context, snaps []*gcp.DocumentSnapshot) {
	for _, snap := range snaps {
		requested, _ := requestedAt(snap)[0].(time.Time)
		s.read[snap.Ref.ID] = readRecord{requested, event.NewID(snap.UpdateTime, snap.Ref.ID, event.MaxEvents-1)}
	}
	if s.horizon.IsZero() && len(snaps) > 0 {
		s.horizon = snaps[0].ReadTime
	}
	for _, e := range readableEvents(ctx, snaps) {
		switch {
		case e.ID <= s.after || !s.filter.Matches(e):
		case e.CreatedAt.After(s.horizon):
			s.later = true
		default:
			s.found = append(s.found, e)
		}
	}
	slices.SortFunc(s.found, compareEvents)
}

// result returns the first events of those that are complete.
func (s *eventScan) result(complete int, more bool) event.Batch {
	n := min(complete, s.limit)
	b := event.Batch{Events: s.found[:n], Next: s.after, More: more || s.later || n < len(s.found)}
	// The first page was read less than the time of a call ago.
	switch idle := s.log.idleCursor(); {
	case n > 0:
		b.Next = s.found[n-1].ID
	case idle > s.after:
		// The cursor of a reader for whom nothing happens would expire, and each call would read more again.
		b.Next = idle
	}
	return b
}

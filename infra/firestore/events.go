package firestore

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/event"
)

// The events of a commit are one document, in the same commit. It is never changed, so the time of the commit is its
// update time, which orders the events: a read at a time returns all commits up to that time, so a later commit has a
// later place. No counter is needed, which every commit of an organization would have to write.
//
// Firestore cannot query update times. The document has the time at which the service processed the request, which is
// at most settling before the commit. A reader queries from settling before its cursor on, and leaves out what it has
// read. Where that is much, it counts instead: see recentRecords.

// settling is how long before its commit a request may have been processed: longer than the 270 seconds after which
// Firestore ends a transaction.
const settling = 5 * time.Minute

// clockSkew is more than the clocks of Firestore's servers differ.
const clockSkew = 10 * time.Second

// settled is the time up to which all commits are in the log at a time.
func settled(at time.Time) time.Time { return at.Add(-settling - clockSkew) }

// EventLog implements event.Log.
type EventLog struct {
	client *Client
	// page is how many records List reads in one call.
	page int
}

var _ event.Log = (*EventLog)(nil)

// EventLog reads the events of organizations.
func (c *Client) EventLog() *EventLog { return &EventLog{client: c, page: eventPage} }

const eventPage = 300

// eventRecord is the events of one commit.
type eventRecord struct {
	organizationID, agentID string
	// types are those of the events, for queries.
	types     []string
	events    []event.Draft
	expiresAt time.Time
}

// eventRecordFields lists what is stored of a record. Firestore deletes it some time after expires_at.
func eventRecordFields(r *eventRecord) fields {
	return fields{
		{"organization_id", text(&r.organizationID)},
		{"agent_id", text(&r.agentID)},
		{"types", texts(&r.types)},
		{"events", array(&r.events, draftFields)},
		{"expires_at", timestamp(&r.expiresAt)},
	}
}

func draftFields(d *event.Draft) fields {
	return fields{
		{"type", text(&d.Type)},
		{"data", jsonText(&d.Data)},
	}
}

// cursorMargin is how much longer than cursors events are kept: a reader whose cursor is about to expire still finds
// what follows it, also where the clocks of processes differ.
const cursorMargin = 24 * time.Hour

// requestedField is when the service processed the request that wrote the record.
const requestedField = "requested_at"

// writeEvents adds events to a commit. No events are no document.
func (c *Client) writeEvents(b *batch, organizationID, agentID string, events []event.Draft) {
	if len(events) == 0 {
		return
	}
	r := eventRecord{
		organizationID: organizationID, agentID: agentID, events: events,
		expiresAt: c.now().Add(event.Retention + cursorMargin),
	}
	for _, e := range events {
		if !slices.Contains(r.types, string(e.Type)) {
			r.types = append(r.types, string(e.Type))
		}
	}
	doc := eventRecordFields(&r).encode()
	doc[requestedField] = gcp.ServerTimestamp
	ref, _ := c.ref(eventCollection, event.RecordID(rand.Uint64())) //nolint:gosec // names a document, protects nothing
	b.Create(ref, doc)
}

// OnEvents makes the client call report after each change that has events, with the id of the organization. The answer
// of the call waits for it (call.Answer), and Close does. The report has 5 s.
func (c *Client) OnEvents(report func(ctx context.Context, organizationID string)) {
	c.onEvents.Store(&report)
}

func (c *Client) reportEvents(ctx context.Context, organizationID string) {
	if report := c.onEvents.Load(); report != nil {
		c.announce(ctx, func(ctx context.Context) { (*report)(ctx, organizationID) })
	}
}

// announceTimeout bounds what publishes about a committed change. It may go on after an answer that did not wait for
// all of it. A sweep makes up for what is lost.
const announceTimeout = 5 * time.Second

// announce starts what tells others about a change that was committed. So neither an error nor a client that went away
// may fail it.
func (c *Client) announce(ctx context.Context, publish func(ctx context.Context)) {
	call.From(ctx).Answer.WaitFor(c.background.start(ctx, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, announceTimeout)
		defer cancel()
		publish(ctx)
	}))
}

// eventsIn returns the events of a record that was committed at a time. Events that can't be decoded are an error.
func eventsIn(id string, doc lookup, committed time.Time) ([]event.Event, error) {
	var r eventRecord
	if _, err := eventRecordFields(&r).decode(doc); err != nil {
		return nil, err
	}
	events := make([]event.Event, len(r.events))
	for i, d := range r.events {
		events[i] = event.Event{
			ID: event.NewID(committed, id, i), Type: d.Type, CreatedAt: committed.UTC(),
			OrganizationID: r.organizationID, AgentID: r.agentID, Data: d.Data,
		}
	}
	return events, nil
}

// readableEvents returns the events of records. It reports records that can't be decoded and leaves them out.
func readableEvents(ctx context.Context, snaps []*gcp.DocumentSnapshot) []event.Event {
	var events []event.Event
	for _, snap := range snaps {
		found, err := eventsIn(snap.Ref.ID, inSnapshot(snap), snap.UpdateTime)
		if err != nil {
			reportUnreadable(ctx, eventCollection, snap.Ref.ID, err)
		}
		events = append(events, found...)
	}
	return events
}

func compareEvents(a, b event.Event) int {
	if a.ID < b.ID {
		return -1
	}
	return 1
}

// Get implements event.Log. It reports a record that can't be decoded, and has no event of it, as lists have none: who
// asks again, as a webhook's worker does, would get no other answer.
func (l *EventLog) Get(ctx context.Context, organizationID string, id event.ID) (event.Event, error) {
	ref, _ := l.client.ref(eventCollection, id.Record())
	snap, err := l.client.readOne(ctx, ref)
	if err != nil {
		return event.Event{}, err
	}
	if !snap.Exists() {
		return event.Event{}, event.NotFound()
	}
	events := readableEvents(ctx, []*gcp.DocumentSnapshot{snap})
	i := slices.IndexFunc(events, func(e event.Event) bool { return e.ID == id && e.OrganizationID == organizationID })
	if i < 0 {
		return event.Event{}, event.NotFound()
	}
	return events[i], nil
}

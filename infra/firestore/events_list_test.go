package firestore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/fault"
)

// eventTenant is an organization whose events a test commits.
type eventTenant struct {
	t   *testing.T
	log *EventLog
	id  string
}

func newEventTenant(t *testing.T, log *EventLog) eventTenant {
	return eventTenant{t, log, "org_" + uuid.NewString()}
}

// forEachEventPage runs a test with a log that reads all records in one call, with one that needs several, and with one
// that counts records where it can.
func forEachEventPage(t *testing.T, test func(*testing.T, *EventLog)) {
	t.Helper()
	for name, row := range map[string]struct{ page, enough int }{
		"one page": {page: eventPage, enough: enoughRecords}, "many pages": {page: 5, enough: enoughRecords},
		"counting": {page: 5, enough: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := open(t, "", Options{})
			c.recent.enough = row.enough
			test(t, &EventLog{client: c, page: row.page})
		})
	}
}

// commit commits events in one commit.
func (o eventTenant) commit(agentID string, events ...event.Draft) {
	o.t.Helper()
	must(o.t, o.log.client.commitEvents(o.t.Context(), o.id, agentID, events))
}

func (o eventTenant) list(f event.Filter, after event.ID, limit int) event.Batch {
	o.t.Helper()
	b, err := o.log.List(o.t.Context(), o.id, f, after, limit)
	must(o.t, err)
	return b
}

func (o eventTenant) want(what string, got event.Batch, numbers ...int64) {
	o.t.Helper()
	if n := numbersOf(o.t, got.Events); !slices.Equal(n, numbers) {
		o.t.Errorf("%s: events %v, want %v", what, n, numbers)
	}
}

func TestEventLog_HasWhatWasCommitted(t *testing.T) {
	t.Parallel()
	forEachEventPage(t, func(t *testing.T, log *EventLog) {
		o, agentID := newEventTenant(t, log), uuid.NewString()
		before := time.Now().Add(-time.Minute)
		o.commit(agentID, event.New(event.AgentStageChanged, 1), event.New(event.AgentRunning, 2))
		o.commit("", event.New(event.APIKeyCreated, 3))
		got := o.list(event.Filter{}, event.Start, 10)
		o.want("all", got, 1, 2, 3)
		if got.More {
			t.Error("More = true after the last event")
		}
		for i, want := range []event.Event{
			{Type: event.AgentStageChanged, OrganizationID: o.id, AgentID: agentID},
			{Type: event.AgentRunning, OrganizationID: o.id, AgentID: agentID},
			{Type: event.APIKeyCreated, OrganizationID: o.id},
		} {
			e := got.Events[i]
			if !e.CreatedAt.After(before) || e.CreatedAt != e.ID.Time() {
				t.Errorf("event %d was created at %v, and its id says %v, want the time of its commit", i, e.CreatedAt,
					e.ID.Time())
			}
			want.ID, want.CreatedAt, want.Data = e.ID, e.CreatedAt, e.Data
			if fmt.Sprint(e) != fmt.Sprint(want) {
				t.Errorf("event %d = %v, want %v", i, e, want)
			}
		}
	})
}

func TestEventLog_ReadsTheNewestWithoutACursor(t *testing.T) {
	t.Parallel()
	forEachEventPage(t, func(t *testing.T, log *EventLog) {
		o := newEventTenant(t, log)
		empty := o.list(event.Filter{}, "", 3)
		o.want("no events", empty)
		for n := range 5 {
			o.commit("", event.New(event.AgentUpdated, n))
		}
		o.want("after the cursor of no events", o.list(event.Filter{}, empty.Next, 10), 0, 1, 2, 3, 4)
		newest := o.list(event.Filter{}, "", 3)
		o.want("newest", newest, 2, 3, 4)
		o.want("after the newest", o.list(event.Filter{}, newest.Next, 3))
		o.commit("", event.New(event.AgentUpdated, 5))
		o.want("after a commit", o.list(event.Filter{}, newest.Next, 3), 5)
	})
}

func TestEventLog_Filters(t *testing.T) {
	t.Parallel()
	forEachEventPage(t, func(t *testing.T, log *EventLog) {
		o, one, other := newEventTenant(t, log), uuid.NewString(), uuid.NewString()
		o.commit(one, event.New(event.AgentRunning, 1))
		o.commit(other, event.New(event.AgentRunning, 2))
		o.commit(one, event.New(event.AgentStageChanged, 3), event.New(event.AgentError, 4))
		o.commit("", event.New(event.APIKeyCreated, 5))
		for name, row := range map[string]struct {
			filter event.Filter
			want   []int64
		}{
			"all":               {want: []int64{1, 2, 3, 4, 5}},
			"an agent":          {filter: event.Filter{AgentID: one}, want: []int64{1, 3, 4}},
			"a type":            {filter: event.Filter{Type: event.AgentRunning}, want: []int64{1, 2}},
			"a type of several": {filter: event.Filter{Type: event.AgentError}, want: []int64{4}},
			"both":              {filter: event.Filter{AgentID: one, Type: event.AgentRunning}, want: []int64{1}},
			"none":              {filter: event.Filter{AgentID: other, Type: event.AgentError}, want: []int64{}},
		} {
			o.want(name, o.list(row.filter, event.Start, 10), row.want...)
			o.want(name+", newest", o.list(row.filter, "", 10), row.want...)
		}
	})
}

func TestEventLog_HidesEventsForAdminsFromMembers(t *testing.T) {
	t.Parallel()
	forEachEventPage(t, func(t *testing.T, log *EventLog) {
		o := newEventTenant(t, log)
		for n := range 20 {
			o.commit("", event.New(event.APIKeyCreated, -n))
		}
		o.commit("", event.New(event.AgentRunning, 1))
		o.commit("", event.New(event.SecretFailed, -100))
		f := event.Filter{MembersOnly: true}
		o.want("from the beginning", o.list(f, event.Start, 2), 1)
		newest := o.list(f, "", 2)
		o.want("newest", newest, 1)
		o.commit("", event.New(event.AgentPaused, 2))
		o.want("after the newest", o.list(f, newest.Next, 2), 2)
	})
}

// TestEventLog_MovesOnWhereNothingMatches: a reader for whom there is nothing must not read the whole log in each poll.
func TestEventLog_MovesOnWhereNothingMatches(t *testing.T) {
	t.Parallel()
	forEachEventPage(t, func(t *testing.T, log *EventLog) {
		o := newEventTenant(t, log)
		o.commit("", event.New(event.APIKeyCreated, -1))
		f := event.Filter{MembersOnly: true}
		first := o.list(f, event.Start, 2)
		o.want("first poll", first)
		if first.Next <= event.After(time.Now().Add(-time.Hour)) {
			t.Errorf("the next poll begins at %s, want one that looks back minutes only", first.Next.Time())
		}
		o.commit("", event.New(event.AgentRunning, 1))
		o.want("second poll", o.list(f, first.Next, 2), 1)
	})
}

// TestEventLog_LeadsMembersPastEventsForAdmins wants a cursor after the hidden events. With the first one, each poll
// reads all of them.
func TestEventLog_LeadsMembersPastEventsForAdmins(t *testing.T) {
	t.Parallel()
	forEachEventPage(t, func(t *testing.T, log *EventLog) {
		o, f := newEventTenant(t, log), event.Filter{MembersOnly: true}
		for n := range 20 {
			o.commit("", event.New(event.APIKeyCreated, -n))
		}
		newest := o.list(f, "", 2)
		o.want("newest", newest)
		if age := time.Since(newest.Next.Time()); age > 10*time.Minute {
			t.Errorf("the cursor is %v old", age)
		}
		o.commit("", event.New(event.AgentPaused, 1))
		o.want("after the newest", o.list(f, newest.Next, 2), 1)
	})
}

// TestEventLog_BoundsWhatACallReads hides more records from a member than a call reads.
func TestEventLog_BoundsWhatACallReads(t *testing.T) {
	t.Parallel()
	log := &EventLog{client: open(t, "", Options{}), page: 1}
	o, f := newEventTenant(t, log), event.Filter{MembersOnly: true}
	o.commit("", event.New(event.AgentRunning, 1))
	for range maxPages {
		o.commit("", event.New(event.APIKeyCreated, -1))
	}
	o.commit("", event.New(event.AgentPaused, 2))
	first := o.list(f, event.Start, 10)
	if o.want("first", first); !first.More || first.Next <= event.Start {
		t.Errorf("the first call reads up to %s, more: %t; want a part of the log", first.Next, first.More)
	}
	o.want("second", o.list(f, first.Next, 10), 1, 2)

	hidden := event.Filter{MembersOnly: true, Type: event.APIKeyCreated}
	if b := o.list(hidden, event.Start, 10); b.More || b.Next <= event.Start {
		t.Errorf("a type for admins only: up to %s, more: %t; want the end of the log", b.Next, b.More)
	}
}

// TestEventLog_BoundsTheNewest hides all of the newest records from a member that a call reads.
func TestEventLog_BoundsTheNewest(t *testing.T) {
	t.Parallel()
	log := &EventLog{client: open(t, "", Options{}), page: 1}
	o, f := newEventTenant(t, log), event.Filter{MembersOnly: true}
	o.commit("", event.New(event.AgentRunning, 1))
	for range 5 {
		o.commit("", event.New(event.APIKeyCreated, -1))
	}
	o.want("behind few", o.list(f, "", 1), 1)
	for range maxPages * 11 { // those of a page of one event
		o.commit("", event.New(event.APIKeyCreated, -1))
	}
	newest := o.list(f, "", 1)
	o.want("behind many", newest)
	o.commit("", event.New(event.AgentPaused, 2))
	next := o.list(f, newest.Next, 10)
	for next.More && len(next.Events) == 0 {
		next = o.list(f, next.Next, 10)
	}
	o.want("the next polls", next, 1, 2)
}

// TestEventLog_NamesNoCursorThatExpires reads the newest events when they have been kept for the longest time.
func TestEventLog_NamesNoCursorThatExpires(t *testing.T) {
	t.Parallel()
	forEachEventPage(t, func(t *testing.T, log *EventLog) {
		o := newEventTenant(t, log)
		o.commit("", event.New(event.AgentRunning, 1))
		later := time.Now().Add(event.Retention + time.Hour)
		log.client.clock = func() time.Time { return later }
		log.client.databaseClock.last.Store(&databaseTime{read: later, received: time.Now()})
		newest := o.list(event.Filter{}, "", 2)
		o.want("newest", newest, 1)
		o.want("after the newest", o.list(event.Filter{}, newest.Next, 2))
	})
}

func TestEventLog_HidesEventsOfOtherOrganizations(t *testing.T) {
	t.Parallel()
	forEachEventPage(t, func(t *testing.T, log *EventLog) {
		o, other := newEventTenant(t, log), newEventTenant(t, log)
		o.commit("", event.New(event.AgentRunning, 1))
		other.commit("", event.New(event.AgentRunning, 2))
		o.want("its own", o.list(event.Filter{}, event.Start, 10), 1)
		for _, id := range []string{"", "..", "a/b", uuid.NewString()} {
			b, err := log.List(t.Context(), id, event.Filter{}, event.Start, 10)
			if err != nil || len(b.Events) > 0 {
				t.Errorf("events of the organization %q = %v, %v, want none", id, b.Events, err)
			}
		}
	})
}

func TestEventLog_RefusesAnExpiredCursor(t *testing.T) {
	t.Parallel()
	forEachEventPage(t, func(t *testing.T, log *EventLog) {
		o := newEventTenant(t, log)
		o.commit("", event.New(event.AgentRunning, 1))
		old := event.After(time.Now().Add(-event.Retention - time.Minute))
		if _, err := log.List(t.Context(), o.id, event.Filter{}, old, 10); !fault.Is(err, fault.BadRequest) {
			t.Errorf("list after an expired cursor = %v, want BadRequest", err)
		}
		for _, err := range log.Follow(t.Context(), o.id, event.Filter{}, old, time.Minute) {
			if !fault.Is(err, fault.BadRequest) {
				t.Errorf("follow after an expired cursor = %v, want BadRequest", err)
			}
			return
		}
		t.Error("follow after an expired cursor ended without an error")
	})
}

// TestEventLog_KeepsTheCursorOfAnIdleReaderValid wants the cursor to move on in an organization without events.
func TestEventLog_KeepsTheCursorOfAnIdleReaderValid(t *testing.T) {
	t.Parallel()
	forEachEventPage(t, func(t *testing.T, log *EventLog) {
		o := newEventTenant(t, log)
		old := event.After(time.Now().Add(-event.Retention + time.Minute))
		b := o.list(event.Filter{}, old, 10)
		if age := time.Since(b.Next.Time()); age > 10*time.Minute {
			t.Errorf("the cursor after no events is %v old, want one that stays valid", age)
		}
		o.commit("", event.New(event.AgentRunning, 1))
		o.want("after the new cursor", o.list(event.Filter{}, b.Next, 10), 1)
	})
}

// TestEventLog_HasNoEventOfAnUnreadableRecord: a record of a later release, after a roll-back. A webhook's worker that
// delivers its event again would otherwise try it every 30 seconds.
func TestEventLog_HasNoEventOfAnUnreadableRecord(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	id := event.RecordID(1)
	ref := c.collection(eventCollection).Doc(id)
	_, err := ref.Create(t.Context(), map[string]any{"organization_id": "org_1", "events": "of a later release"})
	must(t, err)
	_, err = c.EventLog().Get(t.Context(), "org_1", event.NewID(time.Now(), id, 0))
	if !fault.Is(err, fault.NotFound) {
		t.Errorf("Get of an event that cannot be decoded: %v, want not found", err)
	}
}

func TestEventLog_GetsOneEvent(t *testing.T) {
	t.Parallel()
	forEachEventPage(t, func(t *testing.T, log *EventLog) {
		o, other := newEventTenant(t, log), newEventTenant(t, log)
		o.commit("", event.New(event.AgentStageChanged, 1), event.New(event.AgentRunning, 2))
		all := o.list(event.Filter{}, event.Start, 10).Events
		got, err := log.Get(t.Context(), o.id, all[1].ID)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(all[1]) {
			t.Errorf("Get = %v, %v, want %v", got, err, all[1])
		}
		id := all[0].ID
		for name, row := range map[string]struct {
			organizationID string
			id             event.ID
		}{
			"another organization": {other.id, id},
			"another time":         {o.id, event.NewID(id.Time().Add(time.Microsecond), id.Record(), 0)},
			"another record":       {o.id, event.NewID(id.Time(), event.RecordID(0), 0)},
			"another index":        {o.id, event.NewID(id.Time(), id.Record(), 2)},
		} {
			if _, err := log.Get(t.Context(), row.organizationID, row.id); !fault.Is(err, fault.NotFound) {
				t.Errorf("Get of %s = %v, want NotFound", name, err)
			}
		}
	})
}

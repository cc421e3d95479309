// Package eventtest tests that an adapter keeps the promises of event.Log. It does not depend on the adapter: the
// adapter's test hands in a Fixture.
package eventtest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/testtier"
)

// Fixture is an empty log.
type Fixture struct {
	Log event.Log
	// Commit commits events in one commit.
	Commit func(ctx context.Context, organizationID, agentID string, events []event.Draft) error
}

// Test tests that an event.Log keeps its contract. open makes an empty fixture.
func Test(t *testing.T, open func(*testing.T) Fixture) {
	for name, test := range map[string]func(*testing.T, Fixture){
		"events have what was committed":             eventsHaveWhatWasCommitted,
		"the newest are read without a cursor":       newestWithoutCursor,
		"readers among concurrent writers skip none": readersAmongWriters,
		"filters match":                               filtersMatch,
		"members see no events for admins":            membersOnly,
		"another organization's events are invisible": otherOrganizations,
		"an expired cursor is refused":                expiredCursor,
		"the cursor of an idle reader stays valid":    idleReader,
		"follow begins with the events to come":       followBeginsNow,
		"follow resumes after a cursor":               followResumes,
		"follow reports that nothing happens":         followReportsIdleness,
		"get reads one event":                         getReadsOne,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// number is the data of the tests' events.
type number struct {
	N int `json:"n"`
}

func draft(kind event.Type, n int) event.Draft { return event.New(kind, number{n}) }

func numberOf(t *testing.T, e event.Event) int {
	t.Helper()
	var d number
	if err := json.Unmarshal(e.Data, &d); err != nil {
		t.Fatal(err)
	}
	return d.N
}

func numbersOf(t *testing.T, events []event.Event) []int {
	t.Helper()
	numbers := []int{}
	for _, e := range events {
		numbers = append(numbers, numberOf(t, e))
	}
	return numbers
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// organization is an organization whose events the test commits.
type organization struct {
	t  *testing.T
	w  Fixture
	id string
}

func newOrganization(t *testing.T, w Fixture) organization {
	return organization{t, w, "org_" + uuid.NewString()}
}

// commit commits one event.
func (o organization) commit(agentID string, kind event.Type, n int) {
	o.t.Helper()
	must(o.t, o.w.Commit(o.t.Context(), o.id, agentID, []event.Draft{draft(kind, n)}))
}

func (o organization) list(f event.Filter, after event.ID, limit int) event.Batch {
	o.t.Helper()
	b, err := o.w.Log.List(o.t.Context(), o.id, f, after, limit)
	must(o.t, err)
	return b
}

func (o organization) want(what string, got event.Batch, numbers ...int) {
	o.t.Helper()
	if n := numbersOf(o.t, got.Events); !slices.Equal(n, numbers) {
		o.t.Errorf("%s: events %v, want %v", what, n, numbers)
	}
}

func eventsHaveWhatWasCommitted(t *testing.T, w Fixture) {
	o, agentID := newOrganization(t, w), uuid.NewString()
	before := time.Now().Add(-time.Minute)
	must(t, w.Commit(t.Context(), o.id, agentID, []event.Draft{
		draft(event.AgentStageChanged, 1), draft(event.AgentRunning, 2),
	}))
	must(t, w.Commit(t.Context(), o.id, "", []event.Draft{draft(event.APIKeyCreated, 3)}))
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
}

func newestWithoutCursor(t *testing.T, w Fixture) {
	o := newOrganization(t, w)
	empty := o.list(event.Filter{}, "", 3)
	o.want("no events", empty)
	for n := range 5 {
		o.commit("", event.AgentUpdated, n)
	}
	o.want("after the cursor of no events", o.list(event.Filter{}, empty.Next, 10), 0, 1, 2, 3, 4)
	newest := o.list(event.Filter{}, "", 3)
	o.want("newest", newest, 2, 3, 4)
	o.want("after the newest", o.list(event.Filter{}, newest.Next, 3))
	o.commit("", event.AgentUpdated, 5)
	o.want("after a commit", o.list(event.Filter{}, newest.Next, 3), 5)
}

const writers = 6

// readersAmongWriters reads while several writers commit: in pages, with followers from the beginning, and with
// followers that end after some events and resume. All must see the same events in the same order.
func readersAmongWriters(t *testing.T, w Fixture) {
	o := newOrganization(t, w)
	commits := testtier.Count(t, 10, 10, 25) // readers do work in proportion to the square of it
	total := 0
	var writing, reading sync.WaitGroup
	for writer := range writers {
		total += commits + (commits+2)/3
		writing.Go(func() {
			for n := range commits {
				events := []event.Draft{draft(event.AgentUpdated, writer*1000+n)}
				if n%3 == 0 {
					events = append(events, draft(event.AgentRunning, -writer*1000-n-1))
				}
				if err := w.Commit(t.Context(), o.id, "", events); err != nil {
					t.Error(err)
				}
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	readers := []func(context.Context, organization, int) []event.Event{
		readPages, readPages, followAll, followAll, followInParts,
	}
	seen := make([][]event.Event, len(readers))
	for i, read := range readers {
		reading.Go(func() { seen[i] = read(ctx, o, total) })
	}
	writing.Wait()
	reading.Wait()
	all := o.list(event.Filter{}, event.Start, 10*total).Events
	if len(all) != total {
		t.Fatalf("the log has %d events, want %d", len(all), total)
	}
	for i := range seen {
		if got, want := idsOf(seen[i]), idsOf(all); !slices.Equal(got, want) {
			t.Errorf("reader %d saw %d events, and the log has %d; the first difference is at %d", i, len(got),
				len(want), firstDifference(got, want))
		}
	}
	if ids := idsOf(all); !slices.IsSorted(ids) {
		t.Error("the ids do not rise")
	}
}

func idsOf(events []event.Event) []event.ID {
	var ids []event.ID
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	return ids
}

func firstDifference(a, b []event.ID) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// readPages polls until it has total events.
func readPages(ctx context.Context, o organization, total int) (all []event.Event) {
	for after := event.Start; len(all) < total && ctx.Err() == nil; {
		b, err := o.w.Log.List(ctx, o.id, event.Filter{}, after, 3)
		if err != nil {
			o.t.Errorf("list: %v", err)
			return all
		}
		all, after = append(all, b.Events...), b.Next
	}
	return all
}

// followAll follows the log until it has total events.
func followAll(ctx context.Context, o organization, total int) []event.Event {
	return follow(ctx, o, event.Start, total)
}

// followInParts is followAll with a new call after every few events.
func followInParts(ctx context.Context, o organization, total int) (all []event.Event) {
	for after := event.Start; len(all) < total && ctx.Err() == nil; {
		some := follow(ctx, o, after, 1)
		if len(some) == 0 {
			return all
		}
		all = append(all, some...)
		after = some[len(some)-1].ID
	}
	return all
}

// follow follows the log after a cursor until it has at least n events.
func follow(ctx context.Context, o organization, after event.ID, n int) (some []event.Event) {
	for b, err := range o.w.Log.Follow(ctx, o.id, event.Filter{}, after, time.Minute) {
		if err != nil {
			o.t.Errorf("follow: %v", err)
			return some
		}
		if some = append(some, b.Events...); len(some) >= n {
			return some
		}
	}
	return some
}

func filtersMatch(t *testing.T, w Fixture) {
	o, one, other := newOrganization(t, w), uuid.NewString(), uuid.NewString()
	o.commit(one, event.AgentRunning, 1)
	o.commit(other, event.AgentRunning, 2)
	must(t, w.Commit(t.Context(), o.id, one, []event.Draft{
		draft(event.AgentStageChanged, 3), draft(event.AgentError, 4),
	}))
	o.commit("", event.APIKeyCreated, 5)
	for name, row := range map[string]struct {
		filter event.Filter
		want   []int
	}{
		"all":               {want: []int{1, 2, 3, 4, 5}},
		"an agent":          {filter: event.Filter{AgentID: one}, want: []int{1, 3, 4}},
		"a type":            {filter: event.Filter{Type: event.AgentRunning}, want: []int{1, 2}},
		"a type of several": {filter: event.Filter{Type: event.AgentError}, want: []int{4}},
		"both":              {filter: event.Filter{AgentID: one, Type: event.AgentRunning}, want: []int{1}},
		"none":              {filter: event.Filter{AgentID: other, Type: event.AgentError}, want: []int{}},
	} {
		o.want(name, o.list(row.filter, event.Start, 10), row.want...)
		o.want(name+", newest", o.list(row.filter, "", 10), row.want...)
	}
}

func membersOnly(t *testing.T, w Fixture) {
	o := newOrganization(t, w)
	for n := range 20 {
		o.commit("", event.APIKeyCreated, -n)
	}
	o.commit("", event.AgentRunning, 1)
	o.commit("", event.SecretFailed, -100)
	f := event.Filter{MembersOnly: true}
	o.want("from the beginning", o.list(f, event.Start, 2), 1)
	newest := o.list(f, "", 2)
	o.want("newest", newest, 1)
	o.commit("", event.AgentPaused, 2)
	o.want("after the newest", o.list(f, newest.Next, 2), 2)
}

func otherOrganizations(t *testing.T, w Fixture) {
	o, other := newOrganization(t, w), newOrganization(t, w)
	o.commit("", event.AgentRunning, 1)
	other.commit("", event.AgentRunning, 2)
	o.want("its own", o.list(event.Filter{}, event.Start, 10), 1)
	for _, id := range []string{"", "..", "a/b", uuid.NewString()} {
		b, err := w.Log.List(t.Context(), id, event.Filter{}, event.Start, 10)
		if err != nil || len(b.Events) > 0 {
			t.Errorf("events of the organization %q = %v, %v, want none", id, b.Events, err)
		}
	}
}

func expiredCursor(t *testing.T, w Fixture) {
	o := newOrganization(t, w)
	o.commit("", event.AgentRunning, 1)
	old := event.After(time.Now().Add(-event.Retention - time.Minute))
	if _, err := w.Log.List(t.Context(), o.id, event.Filter{}, old, 10); !fault.Is(err, fault.BadRequest) {
		t.Errorf("list after an expired cursor = %v, want BadRequest", err)
	}
	for _, err := range w.Log.Follow(t.Context(), o.id, event.Filter{}, old, time.Minute) {
		if !fault.Is(err, fault.BadRequest) {
			t.Errorf("follow after an expired cursor = %v, want BadRequest", err)
		}
		return
	}
	t.Error("follow after an expired cursor ended without an error")
}

// idleReader wants the cursor to move on in an organization without events.
func idleReader(t *testing.T, w Fixture) {
	o := newOrganization(t, w)
	old := event.After(time.Now().Add(-event.Retention + time.Minute))
	b := o.list(event.Filter{}, old, 10)
	if age := time.Since(b.Next.Time()); age > 10*time.Minute {
		t.Errorf("the cursor after no events is %v old, want one that stays valid", age)
	}
	o.commit("", event.AgentRunning, 1)
	o.want("after the new cursor", o.list(event.Filter{}, b.Next, 10), 1)
}

func followBeginsNow(t *testing.T, w Fixture) {
	o := newOrganization(t, w)
	o.commit("", event.AgentRunning, 1)
	committed := false
	for b, err := range w.Log.Follow(t.Context(), o.id, event.Filter{Type: event.AgentPaused}, "", time.Minute) {
		must(t, err)
		if !committed { // the first batch is the cursor
			committed = true
			o.want("cursor", b)
			o.commit("", event.AgentRunning, 2)
			o.commit("", event.AgentPaused, 3)
			continue
		}
		o.want("first", b, 3)
		return
	}
}

func followResumes(t *testing.T, w Fixture) {
	o := newOrganization(t, w)
	for n := range 3 {
		o.commit("", event.AgentUpdated, n)
	}
	first := o.list(event.Filter{}, event.Start, 1)
	got := follow(t.Context(), o, first.Next, 2)
	if n := numbersOf(t, got); !slices.Equal(n, []int{1, 2}) {
		t.Errorf("after the first event: %v, want 1 and 2", n)
	}
}

// followReportsIdleness wants a first batch without events, and one after each time without one.
func followReportsIdleness(t *testing.T, w Fixture) {
	o := newOrganization(t, w)
	o.commit("", event.AgentRunning, 1)
	after, batches := o.list(event.Filter{}, "", 1).Next, 0
	for b, err := range w.Log.Follow(t.Context(), o.id, event.Filter{}, after, time.Millisecond) {
		must(t, err)
		o.want("idle", b)
		if b.Next != after {
			t.Errorf("cursor %s, want that of the last event, %s", b.Next, after)
		}
		if batches++; batches == 3 {
			return
		}
	}
	t.Errorf("%d batches, want further ones", batches)
}

func getReadsOne(t *testing.T, w Fixture) {
	o, other := newOrganization(t, w), newOrganization(t, w)
	must(t, w.Commit(t.Context(), o.id, "", []event.Draft{
		draft(event.AgentStageChanged, 1), draft(event.AgentRunning, 2),
	}))
	all := o.list(event.Filter{}, event.Start, 10).Events
	got, err := w.Log.Get(t.Context(), o.id, all[1].ID)
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
		if _, err := w.Log.Get(t.Context(), row.organizationID, row.id); !fault.Is(err, fault.NotFound) {
			t.Errorf("Get of %s = %v, want NotFound", name, err)
		}
	}
}

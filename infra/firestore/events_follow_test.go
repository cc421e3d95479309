package firestore

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/testtier"
)

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
func readPages(ctx context.Context, o eventTenant, total int) (all []event.Event) {
	for after := event.Start; len(all) < total && ctx.Err() == nil; {
		b, err := o.log.List(ctx, o.id, event.Filter{}, after, 3)
		if fault.Is(err, fault.Unavailable) && ctx.Err() == nil { // on a busy machine
			continue
		}
		if err != nil {
			o.t.Errorf("list: %v", err)
			return all
		}
		all, after = append(all, b.Events...), b.Next
	}
	return all
}

// followAll follows the log until it has total events.
func followAll(ctx context.Context, o eventTenant, total int) []event.Event {
	return follow(ctx, o, event.Start, total)
}

// followInParts is followAll with a new call after every few events.
func followInParts(ctx context.Context, o eventTenant, total int) (all []event.Event) {
	for len(all) < total && ctx.Err() == nil {
		after := event.Start
		if len(all) > 0 {
			after = all[len(all)-1].ID
		}
		all = append(all, follow(ctx, o, after, 1)...)
	}
	return all
}

// follow follows the log after a cursor until it has at least n events, again if the log was unavailable.
func follow(ctx context.Context, o eventTenant, after event.ID, n int) (some []event.Event) {
	for ctx.Err() == nil {
		for b, err := range o.log.Follow(ctx, o.id, event.Filter{}, after, time.Minute) {
			if err != nil && !fault.Is(err, fault.Unavailable) {
				o.t.Errorf("follow: %v", err)
				return some
			}
			if err != nil {
				break
			}
			if some, after = append(some, b.Events...), b.Next; len(some) >= n {
				return some
			}
		}
	}
	return some
}

// TestEventLog_ReadersAmongWritersSkipNothing reads while several writers commit: in pages, with followers from the
// beginning, and with followers that end after some events and resume. All must see the same events in the same order.
func TestEventLog_ReadersAmongWritersSkipNothing(t *testing.T) {
	t.Parallel()
	forEachEventPage(t, func(t *testing.T, log *EventLog) {
		o := newEventTenant(t, log)
		const writers = 6
		commits := testtier.Count(t, 6, 6, 10) // readers do work in proportion to the square of it
		total := 0
		var writing, reading sync.WaitGroup
		for writer := range writers {
			total += commits + (commits+2)/3
			writing.Go(func() {
				for n := range commits {
					events := []event.Draft{event.New(event.AgentUpdated, writer*1000+n)}
					if n%3 == 0 {
						events = append(events, event.New(event.AgentRunning, -writer*1000-n-1))
					}
					if err := log.client.commitEvents(t.Context(), o.id, "", events); err != nil {
						t.Error(err)
					}
				}
			})
		}
		ctx := inTime(t)
		readers := []func(context.Context, eventTenant, int) []event.Event{
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
	})
}

func TestFollow_BeginsWithTheEventsToCome(t *testing.T) {
	t.Parallel()
	forEachEventPage(t, func(t *testing.T, log *EventLog) {
		o := newEventTenant(t, log)
		o.commit("", event.New(event.AgentRunning, 1))
		committed := false
		for b, err := range log.Follow(t.Context(), o.id, event.Filter{Type: event.AgentPaused}, "", time.Minute) {
			must(t, err)
			if !committed { // the first batch is the cursor
				committed = true
				o.want("cursor", b)
				o.commit("", event.New(event.AgentRunning, 2))
				o.commit("", event.New(event.AgentPaused, 3))
				continue
			}
			o.want("first", b, 3)
			return
		}
	})
}

func TestFollow_ResumesAfterACursor(t *testing.T) {
	t.Parallel()
	forEachEventPage(t, func(t *testing.T, log *EventLog) {
		o := newEventTenant(t, log)
		for n := range 3 {
			o.commit("", event.New(event.AgentUpdated, n))
		}
		first := o.list(event.Filter{}, event.Start, 1)
		got := follow(t.Context(), o, first.Next, 2)
		if n := numbersOf(t, got); !slices.Equal(n, []int64{1, 2}) {
			t.Errorf("after the first event: %v, want 1 and 2", n)
		}
	})
}

// TestFollow_ReportsThatNothingHappens wants a first batch without events, and one after each time without one.
func TestFollow_ReportsThatNothingHappens(t *testing.T) {
	t.Parallel()
	forEachEventPage(t, func(t *testing.T, log *EventLog) {
		o := newEventTenant(t, log)
		o.commit("", event.New(event.AgentRunning, 1))
		after, batches := o.list(event.Filter{}, "", 1).Next, 0
		for b, err := range log.Follow(t.Context(), o.id, event.Filter{}, after, time.Millisecond) {
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
	})
}

// feedOf returns the feed of an organization that has readers; nil if it has none.
func (o eventTenant) feedOf() *feed {
	feeds := o.log.client.feeds
	feeds.mu.Lock()
	defer feeds.mu.Unlock()
	return feeds.feeds[o.id]
}

// TestFollow_LosesNothingBetweenTheLogAndTheFeed commits an event when the reader has read the log, and lets the reader
// go on when the feed has it.
func TestFollow_LosesNothingBetweenTheLogAndTheFeed(t *testing.T) {
	t.Parallel()
	o := newEventTenant(t, open(t, "", Options{}).EventLog())
	var got []int64
	for b, err := range o.log.Follow(inTime(t), o.id, event.Filter{}, "", time.Hour) {
		must(t, err)
		if len(b.Events) == 0 {
			o.commit("", event.New(event.AgentUpdated, 7))
			o.feedOf().await(t, 1)
		}
		if got = append(got, numbersOf(t, b.Events)...); len(got) > 0 {
			break
		}
	}
	if !slices.Equal(got, []int64{7}) {
		t.Errorf("the reader got %v, want 7", got)
	}
}

// TestFollow_ReadsTheLogWhenItIsTooSlow commits more events than a feed keeps, while the reader has the first one.
func TestFollow_ReadsTheLogWhenItIsTooSlow(t *testing.T) {
	t.Parallel()
	o := newEventTenant(t, open(t, "", Options{}).EventLog())
	var got, want []int64
	for b, err := range o.log.Follow(inTime(t), o.id, event.Filter{}, "", time.Hour) {
		must(t, err)
		if got = append(got, numbersOf(t, b.Events)...); len(want) > 1 && len(got) >= len(want) {
			break
		}
		if len(b.Events) == 0 && len(want) == 0 {
			want = append(want, 0)
			o.commit("", event.New(event.AgentUpdated, 0))
		}
		for len(b.Events) == 1 && len(want) < 2*maxRecent+100 {
			var drafts []event.Draft
			for range 500 {
				drafts = append(drafts, event.New(event.AgentUpdated, len(want)))
				want = append(want, int64(len(want)))
			}
			o.commit("", drafts...)
		}
		o.feedOf().await(t, len(want))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the slow reader got %d events, want %d", len(got), len(want))
	}
}

func TestFollow_LeavesItsFeed(t *testing.T) {
	t.Parallel()
	x := newTenantFixture(t, open(t, "", Options{}))
	c := x.client
	ended, cancel := context.WithCancel(x.org.Ctx)
	for name, read := range map[string]func(){
		"a reader that wants no more": func() {
			for _, err := range c.EventLog().Follow(x.org.Ctx, x.org.ID, event.Filter{}, "", time.Hour) {
				must(t, err)
				break
			}
		},
		"a reader that went away": func() {
			for _, err := range c.EventLog().Follow(ended, x.org.ID, event.Filter{}, "", time.Hour) {
				must(t, err)
				cancel()
			}
		},
		"an expired cursor": func() {
			old := event.After(time.Now().Add(-2 * event.Retention))
			for _, err := range c.EventLog().Follow(x.org.Ctx, x.org.ID, event.Filter{}, old, time.Hour) {
				if err == nil {
					t.Error("an expired cursor is no error")
				}
			}
		},
		"a wait": func() {
			_, err := c.Agents(nil).Await(x.org.Ctx, x.agent.ID, func(agent.Agent) bool { return true })
			must(t, err)
		},
	} {
		read()
		if f := (eventTenant{t, c.EventLog(), x.org.ID}).feedOf(); f != nil {
			t.Errorf("%s: the feed has %d readers, want no feed", name, f.readers)
		}
	}
}

package firestore

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/event"
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
func follow(ctx context.Context, o eventTenant, after event.ID, n int) (some []event.Event) {
	for b, err := range o.log.Follow(ctx, o.id, event.Filter{}, after, time.Minute) {
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

// TestEventLog_ReadersAmongWritersSkipNothing reads while several writers commit: in pages, with followers from the
// beginning, and with followers that end after some events and resume. All must see the same events in the same order.
func TestEventLog_ReadersAmongWritersSkipNothing(t *testing.T) {
	t.Parallel()
	forEachEventPage(t, func(t *testing.T, log *EventLog) {
		o := newEventTenant(t, log)
		const writers = 6
		commits := testtier.Count(t, 10, 10, 25) // readers do work in proportion to the square of it
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
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
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

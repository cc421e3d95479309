package firestore

import (
	"context"
	"errors"
	"sync"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"agents.example/controlplane/shared/event"
)

// feeds are the feeds that have readers.
type feeds struct {
	client  *Client
	running sync.WaitGroup
	// patience is how long a listener may tell of nothing before its feed reads the log.
	patience time.Duration

	mu    sync.Mutex
	feeds map[string]*feed // by organization
}

// feed is the events of one organization as they are committed. All readers of the process share it, and with it one
// target of a listener.
type feed struct {
	feeds          *feeds
	organizationID string
	cancel         context.CancelFunc
	readers        int // guarded by the lock of feeds
	// begun is when the first reader joined.
	begun time.Time
	// cursor is the place in the log after which run reads.
	cursor event.ID

	mu sync.Mutex
	// recent are the newest events, and end is how many the feed has had.
	recent []event.Event
	end    int
	// changed is closed at the next change.
	changed chan struct{}
	err     error
}

const (
	// maxRecent is how many events a feed keeps for slow readers. A slower one reads the log.
	maxRecent = 1000
	// listenTries is how often in a row a listener may fail before it has worked.
	listenTries = 3
	// listenPatience bounds how late readers have an event that a listener did not tell of, for one query.
	listenPatience = time.Minute
)

// errMissed ends a listener that did not tell of a record.
var errMissed = status.Error(codes.Unavailable, "the listener missed a change")

// join returns the feed of an organization. Every event that is committed from now on will be in it. The caller must
// leave it.
func (f *feeds) join(organizationID string) *feed {
	f.mu.Lock()
	defer f.mu.Unlock()
	joined := f.feeds[organizationID]
	if joined == nil {
		ctx, cancel := context.WithCancel(context.Background())
		joined = &feed{
			feeds: f, organizationID: organizationID, cancel: cancel, changed: make(chan struct{}),
			begun: time.Now(),
		}
		f.feeds[organizationID] = joined
		f.running.Go(func() { joined.run(ctx) })
	}
	joined.readers++
	return joined
}

// leave ends a reader's use of the feed. The feed ends with its last reader.
func (f *feed) leave() {
	f.feeds.mu.Lock()
	defer f.feeds.mu.Unlock()
	if f.readers--; f.readers == 0 {
		f.removeLocked()
	}
}

// removeLocked makes the next reader begin another feed. The caller holds the lock of feeds.
func (f *feed) removeLocked() {
	f.cancel()
	if f.feeds.feeds[f.organizationID] == f {
		delete(f.feeds.feeds, f.organizationID)
	}
}

// position is the place after the newest event.
func (f *feed) position() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.end
}

// after returns the events after a place, and the place after them. missed means that the feed no longer has them all.
// changed is closed when there are more.
func (f *feed) after(place int) (events []event.Event, end int, missed bool, changed <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := f.end - len(f.recent)
	if missed = place < first; !missed {
		events = f.recent[place-first:]
	}
	return events, f.end, missed, f.changed, f.err
}

// add appends events that were committed after those that the feed has.
func (f *feed) add(events []event.Event) {
	if len(events) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recent, f.end = append(f.recent, events...), f.end+len(events)
	if len(f.recent) > 2*maxRecent {
		f.recent = append([]event.Event(nil), f.recent[len(f.recent)-maxRecent:]...) // readers may have the former
	}
	f.notifyLocked()
}

func (f *feed) notifyLocked() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// fail ends the feed for its readers.
func (f *feed) fail(err error) {
	f.mu.Lock()
	f.err = err
	f.notifyLocked()
	f.mu.Unlock()
	f.feeds.mu.Lock()
	defer f.feeds.mu.Unlock()
	f.removeLocked()
}

// run listens until ctx ends. Where a listener fails, it listens again, on a separate stream, so that a target which
// fails its stream ends no other feed.
func (f *feed) run(ctx context.Context) {
	now, err := f.feeds.client.DatabaseNow(ctx)
	if err != nil {
		f.fail(err)
		return
	}
	from := settled(now.Add(-time.Since(f.begun)))
	f.cursor = event.After(from)
	for failures := 0; ; {
		w := f.feeds.client.listeners.watch(f.target, from, failures > 0)
		reached, err := f.listen(ctx, w)
		if ctx.Err() != nil {
			return
		}
		if failures++; reached.After(from) {
			failures, from = 1, reached
		}
		if failures == listenTries || errors.Is(err, errClosed) || !pause(ctx, failures) {
			f.fail(faultOf("listen", err))
			return
		}
	}
}

// listen adds the events that were committed when a watch has records, until that fails. It returns the time from which
// another watch must begin.
//
// The events are read from the log. A listener may send a record late, and its count of records tells that only
// afterwards, when readers have the events that were committed later.
func (f *feed) listen(ctx context.Context, w *watch) (reached time.Time, err error) {
	defer w.stop()
	for {
		told, err := w.next(ctx, f.feeds.patience)
		if err != nil {
			return w.reached(), err
		}
		before, err := f.feeds.client.DatabaseNow(ctx)
		if err != nil {
			return w.reached(), err
		}
		found, err := f.read(ctx)
		switch {
		case err != nil:
			return w.reached(), err
		case found && !told:
			return settled(before), errMissed
		}
	}
}

// read adds the events of the log after those that the feed has, and reports whether there were any.
func (f *feed) read(ctx context.Context) (found bool, err error) {
	log := f.feeds.client.EventLog()
	for {
		b, err := log.List(ctx, f.organizationID, event.Filter{}, f.cursor, maxRecent)
		if err != nil {
			return found, err
		}
		f.add(b.Events)
		found = found || len(b.Events) > 0
		if f.cursor = b.Next; !b.More {
			return found, nil
		}
	}
}

// target is the query of the organization's records that were requested from a time on.
func (f *feed) target(from time.Time) *firestorepb.Target_QueryTarget {
	is := func(field string, op firestorepb.StructuredQuery_FieldFilter_Operator, v *firestorepb.Value,
	) *firestorepb.StructuredQuery_Filter {
		return &firestorepb.StructuredQuery_Filter{FilterType: &firestorepb.StructuredQuery_Filter_FieldFilter{
			FieldFilter: &firestorepb.StructuredQuery_FieldFilter{
				Field: &firestorepb.StructuredQuery_FieldReference{FieldPath: field}, Op: op, Value: v,
			},
		}}
	}
	return &firestorepb.Target_QueryTarget{
		Parent: f.feeds.client.listeners.database + "/documents",
		QueryType: &firestorepb.Target_QueryTarget_StructuredQuery{StructuredQuery: &firestorepb.StructuredQuery{
			From: []*firestorepb.StructuredQuery_CollectionSelector{{CollectionId: eventCollection}},
			Where: &firestorepb.StructuredQuery_Filter{FilterType: &firestorepb.StructuredQuery_Filter_CompositeFilter{
				CompositeFilter: &firestorepb.StructuredQuery_CompositeFilter{
					Op: firestorepb.StructuredQuery_CompositeFilter_AND,
					Filters: []*firestorepb.StructuredQuery_Filter{
						is("organization_id", firestorepb.StructuredQuery_FieldFilter_EQUAL,
							&firestorepb.Value{ValueType: &firestorepb.Value_StringValue{StringValue: f.organizationID}}),
						is(requestedField, firestorepb.StructuredQuery_FieldFilter_GREATER_THAN_OR_EQUAL,
							&firestorepb.Value{ValueType: &firestorepb.Value_TimestampValue{
								TimestampValue: timestamppb.New(from),
							}}),
					},
				},
			}},
			OrderBy: []*firestorepb.StructuredQuery_Order{{
				Field:     &firestorepb.StructuredQuery_FieldReference{FieldPath: requestedField},
				Direction: firestorepb.StructuredQuery_ASCENDING,
			}},
		}},
	}
}

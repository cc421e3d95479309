package firestore

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc"

	"agents.example/controlplane/shared/event"
)

// readCounter counts the queries of a client, the documents that they return, and its counts.
type readCounter struct{ queries, documents, counts atomic.Int64 }

func (r *readCounter) options() Options {
	return Options{DialOptions: []grpc.DialOption{aroundStreams(func(
		method string, open openStream,
	) (grpc.ClientStream, error) {
		switch method {
		case firestorepb.Firestore_RunQuery_FullMethodName:
			r.queries.Add(1)
		case firestorepb.Firestore_RunAggregationQuery_FullMethodName:
			r.counts.Add(1)
		}
		stream, err := open()
		return countedStream{stream, r}, err
	})}}
}

type countedStream struct {
	grpc.ClientStream
	counter *readCounter
}

// RecvMsg implements grpc.ClientStream.
func (s countedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if r, ok := m.(*firestorepb.RunQueryResponse); ok && err == nil && r.GetDocument() != nil {
		s.counter.documents.Add(1)
	}
	return err
}

// during returns the reads of a call.
func (r *readCounter) during(f func()) string {
	r.queries.Store(0)
	r.documents.Store(0)
	r.counts.Store(0)
	f()
	return fmt.Sprintf("%d queries, %d documents, %d counts", r.queries.Load(), r.documents.Load(), r.counts.Load())
}

// TestEventLog_ReadsWhatIsNew reads one new event of an organization that has had many in the last minutes: in a
// process that has read them, and in a new one.
func TestEventLog_ReadsWhatIsNew(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		before        int
		wantFirst     string
		wantFollowing string
	}{
		{
			before: 2, wantFirst: "1 queries, 3 documents, 0 counts", wantFollowing: "1 queries, 4 documents, 0 counts",
		},
		{
			before: 603, wantFirst: "3 queries, 604 documents, 0 counts",
			wantFollowing: "1 queries, 2 documents, 1 counts",
		},
		{
			before: 2104, wantFirst: "8 queries, 2105 documents, 0 counts",
			wantFollowing: "1 queries, 2 documents, 1 counts",
		},
	} {
		t.Run(fmt.Sprint(row.before, " records"), func(t *testing.T) {
			t.Parallel()
			counter := &readCounter{}
			writer := open(t, "", Options{})
			reader := open(t, writer.project(), counter.options())
			writer.commitLate(t, 0, 20*time.Second)
			var writing sync.WaitGroup
			for worker := range 8 {
				writing.Go(func() {
					for n := worker; n < row.before-1; n += 8 {
						writer.commitLate(t, 0, 20*time.Second+time.Duration(n)*4*time.Minute/time.Duration(row.before))
					}
				})
			}
			writing.Wait()
			all, err := writer.EventLog().List(t.Context(), "o", event.Filter{}, event.Start, 2*row.before)
			must(t, err)
			cursor := all.Next
			for i, want := range []string{row.wantFirst, row.wantFollowing} {
				writer.addRecord(t, "o", int64(i+1))
				var b event.Batch
				got := counter.during(func() {
					b, err = reader.EventLog().List(t.Context(), "o", event.Filter{}, cursor, 1)
					must(t, err)
				})
				if n := numbersOf(t, b.Events); !slices.Equal(n, []int64{int64(i + 1)}) {
					t.Errorf("event %d: got %v", i+1, n)
				}
				if cursor = b.Next; got != want {
					t.Errorf("event %d: %s, want %s", i+1, got, want)
				}
			}
		})
	}
}

// A late record is committed before a reader's query that does not look back, and another one after it: the reader must
// not have the second one alone.
func TestEventLog_CountsAfterItsQuery(t *testing.T) {
	t.Parallel()
	other := open(t, "", Options{})
	var queried func()
	c := open(t, other.project(), Options{Observe: func(method string) {
		if method == firestorepb.Firestore_RunQuery_FullMethodName && queried != nil {
			do := queried
			queried = nil
			do()
		}
	}})
	c.recent.enough = 1
	other.commitLate(t, 1, 2*time.Minute)
	other.commitLate(t, 2, time.Minute)
	other.commitLate(t, 3, 0)
	first, err := c.EventLog().List(t.Context(), "o", event.Filter{}, event.Start, 10)
	must(t, err)
	queried = func() {
		other.commitLate(t, 4, 4*time.Minute)
		other.commitLate(t, 5, 0)
	}
	second, err := c.EventLog().List(t.Context(), "o", event.Filter{}, first.Next, 10)
	must(t, err)
	if got := numbersOf(t, second.Events); !slices.Equal(got, []int64{4, 5}) {
		t.Errorf("events %v, want 4 and 5", got)
	}
}

func TestRecentRecords_AreBounded(t *testing.T) {
	t.Parallel()
	r, at := newRecentRecords(), time.Now()
	for organization := range 100 {
		read := map[string]readRecord{}
		for n := range maxRecentRecords / 50 {
			read[fmt.Sprint(n)] = readRecord{requested: at, last: event.Start}
		}
		r.remember(fmt.Sprint(organization), read)
	}
	if r.records > maxRecentRecords {
		t.Errorf("%d records are remembered, want at most %d", r.records, maxRecentRecords)
	}
	r.remember("99", map[string]readRecord{"new": {requested: at.Add(time.Hour), last: event.Start}})
	if n := len(r.organizations["99"]); n != 1 {
		t.Errorf("%d records of an organization are remembered an hour later, want 1", n)
	}
}

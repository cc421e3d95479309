package firestore

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"agents.example/controlplane/shared/event"
)

// A reader looks back over the minutes before its cursor, because a record that was requested then may have been
// committed after it. Where an organization has many records in these minutes, reading them again for each new event
// costs too much. So a process remembers what it has read, and counts the records: if there are no more than those that
// it has read and that were committed up to the cursor, then none is late, and only the last seconds are read again.
//
// The memory is only a lower bound of what there is. Where it lacks a record, the count differs, and the reader looks
// back over all of them.

// recentRecords are the records that a process has read, of organizations that have many.
type recentRecords struct {
	// enough is how many records a reader must have read for a count to be cheaper.
	enough int

	mu sync.Mutex
	// records is how many there are of all organizations.
	records       int
	organizations map[string]map[string]readRecord // by id
}

// readRecord is a record that was read.
type readRecord struct {
	requested time.Time
	last      event.ID // of its events
}

const (
	// enoughRecords is about what two more calls cost.
	enoughRecords = 30
	// recently is how long before a cursor records are always read again. Most late records were requested then.
	recently = 10 * time.Second
	// maxRecentRecords bounds the memory, to a few megabytes. Beyond it, readers look back.
	maxRecentRecords = 50_000
)

func newRecentRecords() *recentRecords {
	return &recentRecords{enough: enoughRecords, organizations: map[string]map[string]readRecord{}}
}

// remember adds records that were read.
func (r *recentRecords) remember(organizationID string, read map[string]readRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.organizations[organizationID]
	if known == nil && len(read) < r.enough {
		return
	}
	if known == nil {
		known = map[string]readRecord{}
		r.organizations[organizationID] = known
	}
	r.records -= len(known)
	var newest time.Time
	for id, record := range read {
		known[id] = record
		if record.requested.After(newest) {
			newest = record.requested
		}
	}
	oldest := settled(newest)
	maps.DeleteFunc(known, func(_ string, record readRecord) bool { return record.requested.Before(oldest) })
	if r.records += len(known); r.records > maxRecentRecords {
		clear(r.organizations)
		r.records = 0
	}
}

// read counts the records that were requested in a time, and whose events are not after a cursor.
func (r *recentRecords) read(organizationID string, from, before time.Time, upTo event.ID) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, record := range r.organizations[organizationID] {
		if !record.requested.Before(from) && record.requested.Before(before) && record.last <= upTo {
			n++
		}
	}
	return n
}

// countRecords counts the records of an organization that were requested in a time.
func (c *Client) countRecords(ctx context.Context, organizationID string, from, before time.Time) (int, error) {
	ctx, cancel := c.withTimeout(ctx)
	defer cancel()
	asked := c.firestoreQuery(query{
		collection: eventCollection, equal: []equality{{"organization_id", organizationID}},
		since: requestedField, now: from, limit: maxRecentRecords,
	}).Where(requestedField, "<", before)
	result, err := asked.NewAggregationQuery().WithCount(countAlias).GetResponse(ctx)
	if err != nil {
		return 0, faultOf("count", err)
	}
	n, ok := result.Result[countAlias].(*firestorepb.Value)
	if !ok {
		return 0, fmt.Errorf("count records: the database answered %T", result.Result[countAlias])
	}
	return int(n.GetIntegerValue()), nil
}

// Package store keeps documents in memory: their versions, atomic commits with preconditions, and transactions.
//
// Every commit creates a new state; open transactions keep reading the older one. A transaction reads the state as of
// its first read, and its commit is refused if anything it read has changed since. That check alone isolates
// transactions; the turns in turn.go only save retries. A stored document is never modified, so equal pointers mean
// equal documents.
//
// The package does not evaluate queries: the caller of Scan passes a function that selects documents. Errors are gRPC
// statuses, as in Firestore.
package store

import (
	"context"
	"slices"
	"sync"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Database holds the documents of one database. Its methods are safe for concurrent use.
type Database struct {
	name  string
	clock func() time.Time

	mu sync.RWMutex
	// last is the time of the newest commit in microseconds. It is unique among commits.
	last        int64
	collections map[string]map[string]history
	open        map[string]*Transaction
	turns       map[string]*turn
	// aged are the documents with old versions that only open transactions still need.
	aged map[string]struct{}
	// watchers are the channels to send to, by the name of a document or a collection.
	watchers map[string]map[chan<- struct{}]int
}

// version is a document as of a commit; a nil document means that it did not exist.
type version struct {
	at       int64
	document *firestorepb.Document
}

// history is all versions of a document, oldest first.
type history []version

func (h history) newest() *firestorepb.Document {
	if len(h) == 0 {
		return nil
	}
	return h[len(h)-1].document
}

func (h history) at(moment int64) *firestorepb.Document {
	for i := len(h) - 1; i >= 0; i-- {
		if h[i].at <= moment {
			return h[i].document
		}
	}
	return nil
}

// New returns a database with initial documents. name is projects/P/databases/D; clock is usually time.Now.
func New(name string, clock func() time.Time, documents []*firestorepb.Document) *Database {
	d := &Database{
		name: name, clock: clock, collections: map[string]map[string]history{}, open: map[string]*Transaction{},
		turns: map[string]*turn{}, aged: map[string]struct{}{}, watchers: map[string]map[chan<- struct{}]int{},
	}
	for _, document := range documents {
		at := document.GetUpdateTime().AsTime().UnixMicro()
		d.install(document.GetName(), document, at)
		d.last = max(d.last, at)
	}
	return d
}

// Name returns the name of the database.
func (d *Database) Name() string { return d.name }

// Reader reads one state, either the newest state of a database or that of a transaction, and returns its time.
type Reader interface {
	// Get reads documents by name. A missing document is nil in the result.
	Get(ctx context.Context, names ...string) (found []*firestorepb.Document, at *timestamppb.Timestamp, err error)
	// Scan returns the documents of a collection that choose selects. choose receives them unordered and must not
	// modify them.
	Scan(collection string, choose Choice) (found []*firestorepb.Document, at *timestamppb.Timestamp, err error)
}

// Choice selects documents of a collection. It must be deterministic.
type Choice func([]*firestorepb.Document) []*firestorepb.Document

var (
	_ Reader = (*Database)(nil)
	_ Reader = (*Transaction)(nil)
)

// Get implements Reader. It never fails.
func (d *Database) Get(_ context.Context, names ...string) (found []*firestorepb.Document, at *timestamppb.Timestamp,
	err error,
) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	found = make([]*firestorepb.Document, len(names))
	for i, name := range names {
		found[i] = d.newest(name)
	}
	return found, d.readTime(), nil
}

// Scan implements Reader. It never fails.
func (d *Database) Scan(collection string, choose Choice) (found []*firestorepb.Document, at *timestamppb.Timestamp,
	err error,
) {
	d.mu.RLock()
	all, at := d.newestOf(collection), d.readTime()
	d.mu.RUnlock()
	return choose(all), at, nil // documents are immutable, so choose needs no lock
}

// All returns every document, unordered.
func (d *Database) All() []*firestorepb.Document {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var all []*firestorepb.Document
	for collection := range d.collections {
		all = append(all, d.newestOf(collection)...)
	}
	return all
}

// Watch makes every commit that changes one of the documents, or a document of one of the collections, send to changed,
// until stop is called. A send to a full channel is dropped. A channel may be given several times for one name.
func (d *Database) Watch(names []string, changed chan<- struct{}) (stop func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range names {
		if d.watchers[name] == nil {
			d.watchers[name] = map[chan<- struct{}]int{}
		}
		d.watchers[name][changed]++
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, name := range names {
			if d.watchers[name][changed]--; d.watchers[name][changed] == 0 {
				delete(d.watchers[name], changed)
			}
			if len(d.watchers[name]) == 0 {
				delete(d.watchers, name)
			}
		}
	}
}

// The caller holds the lock in all functions below.

func (d *Database) newest(name string) *firestorepb.Document {
	return d.collections[collectionOf(name)][name].newest()
}

// newestOf returns the newest documents of a collection.
func (d *Database) newestOf(collection string) []*firestorepb.Document {
	var all []*firestorepb.Document
	for _, h := range d.collections[collection] {
		if doc := h.newest(); doc != nil {
			all = append(all, doc)
		}
	}
	return all
}

// readTime returns the time of the newest state: now, or the newest commit if the clock is behind it.
func (d *Database) readTime() *timestamppb.Timestamp {
	return stamp(max(d.clock().UnixMicro(), d.last))
}

func stamp(micros int64) *timestamppb.Timestamp { return timestamppb.New(time.UnixMicro(micros)) }

// install makes a document the newest version; nil deletes it. Older versions stay while an open transaction may read
// them.
func (d *Database) install(name string, document *firestorepb.Document, at int64) {
	collection := collectionOf(name)
	documents := d.collections[collection]
	if documents == nil {
		documents = map[string]history{}
		d.collections[collection] = documents
	}
	documents[name] = append(d.neededVersions(documents[name]), version{at, document})
	if len(d.open) > 0 {
		d.aged[name] = struct{}{}
	} else {
		d.dropOldVersions(name)
	}
	for _, watched := range []string{name, collection} {
		for changed := range d.watchers[watched] {
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}
}

// neededVersions returns the versions from the one that the oldest open transaction reads.
func (d *Database) neededVersions(h history) history {
	oldest := d.last
	for _, tx := range d.open {
		if tx.moment != 0 {
			oldest = min(oldest, tx.moment)
		}
	}
	for i := len(h) - 1; i > 0; i-- {
		if h[i].at <= oldest {
			return slices.Clone(h[i:])
		}
	}
	return h
}

// dropOldVersions drops all versions of a document except the newest, and everything about a deleted document.
func (d *Database) dropOldVersions(name string) {
	collection := collectionOf(name)
	documents := d.collections[collection]
	h := documents[name]
	if h.newest() != nil {
		documents[name] = history{h[len(h)-1]}
		return
	}
	delete(documents, name)
	if len(documents) == 0 {
		delete(d.collections, collection)
	}
}

// dropAgedVersions drops all old versions if no transaction is open.
func (d *Database) dropAgedVersions() {
	if len(d.open) == 0 {
		for name := range d.aged {
			d.dropOldVersions(name)
		}
		clear(d.aged)
	}
}

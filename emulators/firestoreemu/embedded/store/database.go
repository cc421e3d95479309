// Package store keeps documents: their versions, atomic commits of writes under preconditions, and transactions.
//
// Every commit makes a new state and leaves the older ones to the transactions that read them. A transaction reads the
// state of its first read, and its commit is refused when something that it read is no longer so. That alone keeps
// transactions apart. Turns (see turn.go) only spare them work. A stored document is never changed, so that it is the
// same document exactly when its pointer is the same.
//
// It does not know queries: whoever scans a collection says what of it was of interest. Errors are gRPC statuses, as
// Firestore has them.
package store

import (
	"context"
	"slices"
	"sync"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Database holds the documents of one database. Its methods may be called from any goroutine.
type Database struct {
	name  string
	clock func() time.Time

	mu sync.RWMutex
	// last is the time of the newest commit, in microseconds. No two commits have the same.
	last        int64
	collections map[string]map[string]history
	open        map[string]*Transaction
	turns       map[string]*turn
	// aged are the documents that have versions which only open transactions still need.
	aged     map[string]struct{}
	watchers map[string]map[chan<- struct{}]struct{}
}

// version is a document from a commit on; nil is that there is none.
type version struct {
	at       int64
	document *firestorepb.Document
}

// history is the versions of a document, oldest first.
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

// New makes a database by its name, projects/P/databases/D, with documents that it begins with. clock is usually
// time.Now.
func New(name string, clock func() time.Time, documents []*firestorepb.Document) *Database {
	d := &Database{
		name: name, clock: clock, collections: map[string]map[string]history{}, open: map[string]*Transaction{},
		turns: map[string]*turn{}, aged: map[string]struct{}{}, watchers: map[string]map[chan<- struct{}]struct{}{},
	}
	for _, document := range documents {
		at := document.GetUpdateTime().AsTime().UnixMicro()
		d.install(document.GetName(), document, at)
		d.last = max(d.last, at)
	}
	return d
}

// Name is the database's name.
func (d *Database) Name() string { return d.name }

// Reader reads one state: the newest of a database, or that of a transaction. It answers when the state was.
type Reader interface {
	// Get reads documents by their names; nil stands for one that does not exist.
	Get(ctx context.Context, names ...string) (found []*firestorepb.Document, at *timestamppb.Timestamp, err error)
	// Scan reads what choose chooses of the documents of a collection, which it gets in no order and leaves as they
	// are.
	Scan(collection string, choose Choice) (found []*firestorepb.Document, at *timestamppb.Timestamp, err error)
}

// Choice chooses some documents of a collection. The same documents always lead to the same choice.
type Choice func([]*firestorepb.Document) []*firestorepb.Document

var (
	_ Reader = (*Database)(nil)
	_ Reader = (*Transaction)(nil)
)

// Get implements Reader. It has no errors.
func (d *Database) Get(_ context.Context, names ...string) (found []*firestorepb.Document, at *timestamppb.Timestamp,
	err error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	found = make([]*firestorepb.Document, len(names))
	for i, name := range names {
		found[i] = d.newest(name)
	}
	return found, d.present(), nil
}

// Scan implements Reader. It has no errors.
func (d *Database) Scan(collection string, choose Choice) (found []*firestorepb.Document, at *timestamppb.Timestamp,
	err error) {
	d.mu.RLock()
	all, at := d.all(collection), d.present()
	d.mu.RUnlock()
	return choose(all), at, nil // documents don't change, so that nobody has to wait
}

// All reads every document, in no order.
func (d *Database) All() []*firestorepb.Document {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var all []*firestorepb.Document
	for collection := range d.collections {
		all = append(all, d.all(collection)...)
	}
	return all
}

// Watch has a commit that changes one of the documents send to changed, unless something is waiting there, until stop
// is called.
func (d *Database) Watch(names []string, changed chan<- struct{}) (stop func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range names {
		if d.watchers[name] == nil {
			d.watchers[name] = map[chan<- struct{}]struct{}{}
		}
		d.watchers[name][changed] = struct{}{}
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, name := range names {
			delete(d.watchers[name], changed)
			if len(d.watchers[name]) == 0 {
				delete(d.watchers, name)
			}
		}
	}
}

// The rest is called with the lock held.

func (d *Database) newest(name string) *firestorepb.Document {
	return d.collections[collectionOf(name)][name].newest()
}

// all are the newest documents of a collection.
func (d *Database) all(collection string) []*firestorepb.Document {
	var all []*firestorepb.Document
	for _, h := range d.collections[collection] {
		if doc := h.newest(); doc != nil {
			all = append(all, doc)
		}
	}
	return all
}

// present is the time of the newest state: now, unless the clock is behind the newest commit.
func (d *Database) present() *timestamppb.Timestamp {
	return stamp(max(d.clock().UnixMicro(), d.last))
}

func stamp(micros int64) *timestamppb.Timestamp { return timestamppb.New(time.UnixMicro(micros)) }

// install makes a document the newest version; nil deletes it. Older versions stay as long as an open transaction may
// read them.
func (d *Database) install(name string, document *firestorepb.Document, at int64) {
	collection := collectionOf(name)
	documents := d.collections[collection]
	if documents == nil {
		documents = map[string]history{}
		d.collections[collection] = documents
	}
	documents[name] = append(d.needed(documents[name]), version{at, document})
	if len(d.open) > 0 {
		d.aged[name] = struct{}{}
	} else {
		d.forget(name)
	}
	for changed := range d.watchers[name] {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
}

// needed answers the versions from the one that the oldest open transaction reads.
func (d *Database) needed(h history) history {
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

// forget drops the versions of a document but the newest, and all that is left of a deleted one.
func (d *Database) forget(name string) {
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

// tidy drops all old versions when no transaction is open.
func (d *Database) tidy() {
	if len(d.open) == 0 {
		for name := range d.aged {
			d.forget(name)
		}
		clear(d.aged)
	}
}

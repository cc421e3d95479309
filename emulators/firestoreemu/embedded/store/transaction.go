package store

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// maxAge is the maximum age of a transaction, as in Firestore.
const maxAge = 270 * time.Second

// Transaction records what a transaction has read. It belongs to one client that calls it sequentially.
type Transaction struct {
	id       string
	readOnly bool
	database *Database
	began    time.Time

	// The database's lock guards the fields below.
	ended bool
	// moment is the time of the state that the transaction reads, set by the first read.
	moment int64
	read   map[string]*firestorepb.Document
	scans  []scan
	turn   string
}

// scan is a query of a transaction and its result.
type scan struct {
	collection string
	choose     Choice
	found      []*firestorepb.Document
}

// Begin opens a transaction.
func (d *Database) Begin(readOnly bool) *Transaction {
	tx := &Transaction{
		id: rand.Text(), readOnly: readOnly, database: d, began: d.clock(),
		read: map[string]*firestorepb.Document{},
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, other := range d.open {
		if tx.began.Sub(other.began) > maxAge {
			d.end(other)
		}
	}
	d.open[tx.id] = tx
	return tx
}

// ID returns the id that the client uses.
func (tx *Transaction) ID() []byte { return []byte(tx.id) }

// Transaction returns an open transaction. Errors: InvalidArgument if it has ended or never existed.
func (d *Database) Transaction(id []byte) (*Transaction, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	tx := d.open[string(id)]
	if tx == nil {
		return nil, errEnded()
	}
	return tx, nil
}

func errEnded() error {
	return status.Error(codes.InvalidArgument, "The referenced transaction has expired or is no longer valid.")
}

// Rollback ends a transaction without effect.
func (tx *Transaction) Rollback() {
	tx.database.mu.Lock()
	defer tx.database.mu.Unlock()
	tx.database.end(tx)
}

// Get implements Reader. The first Get may wait for other transactions that have read the first document. Errors:
// InvalidArgument if the transaction has ended.
func (tx *Transaction) Get(ctx context.Context, names ...string) (found []*firestorepb.Document,
	at *timestamppb.Timestamp, err error,
) {
	if !tx.readOnly && len(names) > 0 && !tx.hasRead() {
		tx.database.takeTurn(ctx, tx, names[0])
	}
	d := tx.database
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := tx.fixMoment(); err != nil {
		return nil, nil, err
	}
	found = make([]*firestorepb.Document, len(names))
	for i, name := range names {
		found[i] = d.collections[collectionOf(name)][name].at(tx.moment)
		tx.read[name] = found[i]
	}
	return found, stamp(tx.moment), nil
}

// Scan implements Reader. Errors: InvalidArgument if the transaction has ended.
func (tx *Transaction) Scan(collection string, choose Choice) (found []*firestorepb.Document, at *timestamppb.Timestamp,
	err error,
) {
	d := tx.database
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := tx.fixMoment(); err != nil {
		return nil, nil, err
	}
	var all []*firestorepb.Document
	for _, h := range d.collections[collection] {
		if doc := h.at(tx.moment); doc != nil {
			all = append(all, doc)
		}
	}
	found = choose(all)
	tx.scans = append(tx.scans, scan{collection, choose, found})
	return found, stamp(tx.moment), nil
}

// hasRead reports whether the transaction has read. Only the first read waits.
func (tx *Transaction) hasRead() bool {
	tx.database.mu.RLock()
	defer tx.database.mu.RUnlock()
	return tx.moment != 0
}

// The caller holds the lock in all functions below.

// fixMoment fixes the state that the transaction reads, on the first read.
func (tx *Transaction) fixMoment() error {
	if tx.ended {
		return errEnded()
	}
	if tx.moment == 0 {
		tx.moment = max(tx.database.clock().UnixMicro(), tx.database.last)
		tx.database.last = tx.moment // later commits get a later time
	}
	return nil
}

// isCurrent reports whether everything the transaction read is unchanged.
func (tx *Transaction) isCurrent() bool {
	d := tx.database
	for name, seen := range tx.read {
		if d.newest(name) != seen {
			return false
		}
	}
	for _, s := range tx.scans {
		if !slices.Equal(s.choose(d.newestOf(s.collection)), s.found) {
			return false
		}
	}
	return true
}

// end closes a transaction and drops the versions that only it needed.
func (d *Database) end(tx *Transaction) {
	if tx.ended {
		return
	}
	tx.ended = true
	d.endTurn(tx)
	delete(d.open, tx.id)
	d.dropAgedVersions()
}

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

// maxAge is how long a transaction may be open, as in Firestore.
const maxAge = 270 * time.Second

// Transaction is what a transaction has seen. It belongs to one client, who calls one after another.
type Transaction struct {
	id       string
	readOnly bool
	database *Database
	began    time.Time

	// The rest is guarded by the database's lock.
	ended bool
	// moment is the state that is read, from the first read on.
	moment int64
	read   map[string]*firestorepb.Document
	scans  []scan
	turn   string
}

// scan is a query that a transaction made, and what it found.
type scan struct {
	collection string
	choose     Choice
	found      []*firestorepb.Document
}

// Begin opens a transaction.
func (d *Database) Begin(readOnly bool) *Transaction {
	tx := &Transaction{id: rand.Text(), readOnly: readOnly, database: d, began: d.clock(),
		read: map[string]*firestorepb.Document{}}
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

// ID names the transaction to its client.
func (tx *Transaction) ID() []byte { return []byte(tx.id) }

// Transaction finds an open transaction. Errors: InvalidArgument when it has ended or never was.
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

// Rollback ends a transaction without any effect.
func (tx *Transaction) Rollback() {
	tx.database.mu.Lock()
	defer tx.database.mu.Unlock()
	tx.database.end(tx)
}

// Get implements Reader. It may wait for other transactions that have read the first document. Errors: InvalidArgument
// when the transaction has ended.
func (tx *Transaction) Get(ctx context.Context, names ...string) (found []*firestorepb.Document,
	at *timestamppb.Timestamp, err error) {
	if !tx.readOnly && len(names) > 0 && !tx.hasRead() {
		tx.database.takeTurn(ctx, tx, names[0])
	}
	d := tx.database
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := tx.look(); err != nil {
		return nil, nil, err
	}
	found = make([]*firestorepb.Document, len(names))
	for i, name := range names {
		found[i] = d.collections[collectionOf(name)][name].at(tx.moment)
		tx.read[name] = found[i]
	}
	return found, stamp(tx.moment), nil
}

// Scan implements Reader. Errors: InvalidArgument when the transaction has ended.
func (tx *Transaction) Scan(collection string, choose Choice) (found []*firestorepb.Document, at *timestamppb.Timestamp,
	err error) {
	d := tx.database
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := tx.look(); err != nil {
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

// hasRead reports whether the transaction has read: then it does not wait any more.
func (tx *Transaction) hasRead() bool {
	tx.database.mu.RLock()
	defer tx.database.mu.RUnlock()
	return tx.moment != 0
}

// The rest is called with the lock held.

// look fixes the state that is read, at the first read.
func (tx *Transaction) look() error {
	if tx.ended {
		return errEnded()
	}
	if tx.moment == 0 {
		tx.moment = max(tx.database.clock().UnixMicro(), tx.database.last)
		tx.database.last = tx.moment // later commits are of a later time
	}
	return nil
}

// holds reports whether all that was read is still so.
func (tx *Transaction) holds() bool {
	d := tx.database
	for name, seen := range tx.read {
		if d.newest(name) != seen {
			return false
		}
	}
	for _, s := range tx.scans {
		if !slices.Equal(s.choose(d.all(s.collection)), s.found) {
			return false
		}
	}
	return true
}

// end closes a transaction; what only it needed is dropped.
func (d *Database) end(tx *Transaction) {
	if tx.ended {
		return
	}
	tx.ended = true
	d.endTurn(tx)
	delete(d.open, tx.id)
	d.tidy()
}

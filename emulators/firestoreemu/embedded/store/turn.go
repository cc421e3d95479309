package store

import (
	"context"
	"time"
)

// turnPatience is how long a transaction waits for its turn before it goes on without.
const turnPatience = time.Second

// turn is a transaction's turn with a document: those that read it meanwhile wait, because the first to commit would
// have the others begin again. Turns are economy, never correctness: whoever waited too long, or writes without a
// transaction, goes on without one. Only a transaction's first read waits, so that no two wait for each other.
type turn struct {
	owner *Transaction
	ended chan struct{}
}

// takeTurn waits for the turn with a document. It is called without the lock.
func (d *Database) takeTurn(ctx context.Context, tx *Transaction, name string) {
	var timer *time.Timer
	for {
		d.mu.Lock()
		current := d.turns[name]
		if current == nil {
			if !tx.ended {
				tx.turn = name
				d.turns[name] = &turn{owner: tx, ended: make(chan struct{})}
			}
			d.mu.Unlock()
			return
		}
		d.mu.Unlock()
		if timer == nil {
			timer = time.NewTimer(turnPatience)
			defer timer.Stop()
		}
		select {
		case <-current.ended:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// endTurn lets the others go on. It is called with the lock held.
func (d *Database) endTurn(tx *Transaction) {
	if t := d.turns[tx.turn]; t != nil && t.owner == tx {
		delete(d.turns, tx.turn)
		close(t.ended)
	}
}

package store

import (
	"context"
	"time"
)

// turnPatience is how long a transaction waits for its turn before it continues without one.
const turnPatience = time.Second

// turn gives one transaction precedence for a document. Other transactions that read the document wait, because the
// first to commit would force them to retry. Turns only save work; correctness never depends on them. A transaction
// that has waited too long, or a write without a transaction, continues without a turn. Only the first read of a
// transaction waits, so two transactions never wait for each other.
type turn struct {
	owner *Transaction
	ended chan struct{}
}

// takeTurn waits for the turn for a document. The caller does not hold the lock.
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

// endTurn lets waiting transactions continue. The caller holds the lock.
func (d *Database) endTurn(tx *Transaction) {
	if t := d.turns[tx.turn]; t != nil && t.owner == tx {
		delete(d.turns, tx.turn)
		close(t.ended)
	}
}

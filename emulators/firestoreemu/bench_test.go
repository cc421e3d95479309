//go:build unix

package firestoreemu_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	firestoreclient "cloud.google.com/go/firestore"
	"github.com/google/uuid"
)

const (
	clients = 16
	round   = 500 * time.Millisecond
)

// BenchmarkTransactions runs read-then-write transactions from 16 goroutines, alternately on every emulator. It reports
// the transactions per second of each and the ratio of embedded to official.
func BenchmarkTransactions(b *testing.B) {
	for _, contended := range []bool{false, true} {
		name := "documents=16"
		if contended {
			name = "documents=1"
		}
		b.Run(name, func(b *testing.B) {
			done := map[string]float64{}
			open := map[string]*firestoreclient.Client{}
			for _, e := range emulators() {
				open[e.Kind] = client(b, e.Host, "p-"+uuid.NewString(), firestoreclient.DefaultDatabaseID)
			}
			rounds := 0
			for b.Loop() {
				for kind, c := range open {
					done[kind] += transactions(b, c, contended)
				}
				rounds++
			}
			for kind, n := range done {
				b.ReportMetric(n/float64(rounds)/round.Seconds(), kind+"/s")
			}
			if len(open) == 2 {
				b.ReportMetric(done["embedded"]/max(done["official"], 1), "times")
			}
		})
	}
}

// transactions returns the number of transactions committed in one round.
func transactions(b *testing.B, c *firestoreclient.Client, contended bool) float64 {
	ctx, cancel := context.WithTimeout(b.Context(), round)
	defer cancel()
	var done atomic.Int64
	var running sync.WaitGroup
	for i := range clients {
		if contended {
			i = 0
		}
		document := c.Collection("c").Doc(fmt.Sprint(i))
		running.Go(func() {
			for ctx.Err() == nil {
				err := c.RunTransaction(ctx, func(_ context.Context, tx *firestoreclient.Transaction) error {
					snaps, err := tx.GetAll([]*firestoreclient.DocumentRef{document})
					if err != nil {
						return err
					}
					n, _ := snaps[0].Data()["n"].(int64)
					return tx.Set(document, map[string]any{"n": n + 1})
				})
				if err == nil {
					done.Add(1)
				}
			}
		})
	}
	running.Wait()
	return float64(done.Load())
}

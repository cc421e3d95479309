//go:build unix

package firestoreemu_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	firestoreclient "cloud.google.com/go/firestore"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"
)

// programs is the number of random programs. The official emulator needs two seconds for every deadlock, so it is
// small.
const programs = 3

// transfer is a transaction that moves an amount from one document to another. It reads them by name or by a query.
type transfer struct {
	from, to, amount int
	byQuery          bool
}

// concurrent is a program. The workers run concurrently; each makes its transfers sequentially.
type concurrent struct {
	accounts int
	workers  [][]transfer
}

func drawConcurrent(t *rapid.T) concurrent {
	p := concurrent{accounts: rapid.IntRange(2, 4).Draw(t, "accounts")}
	one := rapid.Custom(func(t *rapid.T) transfer {
		from := rapid.IntRange(0, p.accounts-1).Draw(t, "from")
		return transfer{
			from: from, to: (from + rapid.IntRange(1, p.accounts-1).Draw(t, "distance")) % p.accounts,
			amount: rapid.IntRange(1, 9).Draw(t, "amount"), byQuery: rapid.IntRange(0, 3).Draw(t, "by query") == 0,
		}
	})
	p.workers = rapid.SliceOfN(rapid.SliceOfN(one, 1, 3), 2, 3).Draw(t, "workers")
	return p
}

// TestTransactions_AreSerializable runs random transfers concurrently on every emulator. No transfer may be lost or see
// half of another, and the final balances must match.
func TestTransactions_AreSerializable(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, host string) {
		for seed := range programs {
			p := rapid.Custom(drawConcurrent).Example(seed)
			c := client(t, host, "p-"+uuid.NewString(), firestoreclient.DefaultDatabaseID)
			want := p.balances()
			if diff := cmp.Diff(want, p.run(t, c)); diff != "" {
				t.Errorf("program %d, %+v: balances (-want +got):\n%s", seed, p, diff)
			}
		}
	})
}

// balances returns the final balances, which do not depend on the order of the transfers.
func (p concurrent) balances() []int64 {
	balance := make([]int64, p.accounts)
	for _, transfers := range p.workers {
		for _, tr := range transfers {
			balance[tr.from] -= int64(tr.amount)
			balance[tr.to] += int64(tr.amount)
		}
	}
	return balance
}

func (p concurrent) run(t *testing.T, c *firestoreclient.Client) []int64 {
	t.Helper()
	all := make([]*firestoreclient.DocumentRef, p.accounts)
	for i := range all {
		all[i] = c.Collection("accounts").Doc(fmt.Sprint(i))
		if _, err := all[i].Set(t.Context(), map[string]any{"balance": 0}); err != nil {
			t.Fatal(err)
		}
	}
	var workers sync.WaitGroup
	for _, transfers := range p.workers {
		workers.Go(func() {
			for _, tr := range transfers {
				if err := tr.make(t.Context(), c, all); err != nil {
					t.Errorf("transfer %+v: %v", tr, err)
				}
			}
		})
	}
	workers.Wait()
	snaps, err := c.GetAll(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	balance := make([]int64, len(snaps))
	for i, s := range snaps {
		balance[i], _ = s.Data()["balance"].(int64)
	}
	return balance
}

// make retries the transfer until it is not aborted.
func (tr transfer) make(ctx context.Context, c *firestoreclient.Client, all []*firestoreclient.DocumentRef) error {
	for {
		err := c.RunTransaction(ctx, func(ctx context.Context, tx *firestoreclient.Transaction) error {
			balance, err := tr.read(tx, c, all)
			if err != nil {
				return err
			}
			if err := tx.Update(all[tr.from],
				[]firestoreclient.Update{{Path: "balance", Value: balance[tr.from] - int64(tr.amount)}}); err != nil {
				return err
			}
			return tx.Update(all[tr.to],
				[]firestoreclient.Update{{Path: "balance", Value: balance[tr.to] + int64(tr.amount)}})
		}, firestoreclient.MaxAttempts(1))
		if status.Code(err) != codes.Aborted {
			return err
		}
	}
}

// read returns the balances of at least the two accounts. A query must see a consistent state.
func (tr transfer) read(tx *firestoreclient.Transaction, c *firestoreclient.Client,
	all []*firestoreclient.DocumentRef,
) (map[int]int64, error) {
	balance := map[int]int64{}
	if !tr.byQuery {
		snaps, err := tx.GetAll([]*firestoreclient.DocumentRef{all[tr.from], all[tr.to]})
		if err != nil {
			return nil, err
		}
		balance[tr.from], _ = snaps[0].Data()["balance"].(int64)
		balance[tr.to], _ = snaps[1].Data()["balance"].(int64)
		return balance, nil
	}
	snaps, err := tx.Documents(c.Collection("accounts").OrderBy("balance", firestoreclient.Desc)).GetAll()
	if err != nil {
		return nil, err
	}
	sum := int64(0)
	for i, ref := range all {
		for _, s := range snaps {
			if s.Ref.ID == ref.ID {
				balance[i], _ = s.Data()["balance"].(int64)
				sum += balance[i]
			}
		}
	}
	if sum != 0 || len(snaps) != len(all) {
		return nil, fmt.Errorf("a transaction saw half of another one: %v", balance)
	}
	return balance, nil
}

// TestEmbedded_AbortsConflictingTransactions: the official emulator blocks the other writer, whereas the embedded one
// aborts the transaction. The service does either, depending on the database's configuration.
func TestEmbedded_AbortsConflictingTransactions(t *testing.T) {
	t.Parallel()
	if inProcess == nil {
		t.Skip("the embedded emulator was not chosen")
	}
	type steps struct {
		name string
		// read runs in the transaction; concurrently runs outside, between read and commit.
		read         func(tx *firestoreclient.Transaction, c *firestoreclient.CollectionRef) error
		concurrently func(ctx context.Context, c *firestoreclient.CollectionRef) error
		want         codes.Code
	}
	get := func(id string) func(tx *firestoreclient.Transaction, c *firestoreclient.CollectionRef) error {
		return func(tx *firestoreclient.Transaction, c *firestoreclient.CollectionRef) error {
			_, err := tx.GetAll([]*firestoreclient.DocumentRef{c.Doc(id)})
			return err
		}
	}
	find := func(tx *firestoreclient.Transaction, c *firestoreclient.CollectionRef) error {
		_, err := tx.Documents(c.Where("n", ">", 5)).GetAll()
		return err
	}
	set := func(id string, n int) func(ctx context.Context, c *firestoreclient.CollectionRef) error {
		return func(ctx context.Context, c *firestoreclient.CollectionRef) error {
			_, err := c.Doc(id).Set(ctx, map[string]any{"n": n})
			return err
		}
	}
	remove := func(ctx context.Context, c *firestoreclient.CollectionRef) error {
		_, err := c.Doc("a").Delete(ctx)
		return err
	}
	for _, s := range []steps{
		{name: "a document is changed", read: get("a"), concurrently: set("a", 2), want: codes.Aborted},
		{name: "a document is deleted", read: get("a"), concurrently: remove, want: codes.Aborted},
		{name: "a document is created", read: get("new"), concurrently: set("new", 1), want: codes.Aborted},
		{name: "a document is written without a change", read: get("a"), concurrently: set("a", 1), want: codes.OK},
		{name: "another document is changed", read: get("a"), concurrently: set("b", 1), want: codes.OK},
		{name: "a result of a query is changed", read: find, concurrently: set("b", 8), want: codes.Aborted},
		{name: "a document becomes a result of a query", read: find, concurrently: set("a", 8), want: codes.Aborted},
		{name: "a document stays out of a query", read: find, concurrently: set("a", 2), want: codes.OK},
		{
			name:         "the transaction reads nothing",
			read:         func(*firestoreclient.Transaction, *firestoreclient.CollectionRef) error { return nil },
			concurrently: set("a", 2), want: codes.OK,
		},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			documents := client(t, inProcess.Host, "p-"+uuid.NewString(), "dev")
			c := documents.Collection("c")
			for id, n := range map[string]int{"a": 1, "b": 7} {
				if err := set(id, n)(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
			err := documents.RunTransaction(t.Context(),
				func(ctx context.Context, tx *firestoreclient.Transaction) error {
					if err := s.read(tx, c); err != nil {
						return err
					}
					if err := s.concurrently(t.Context(), c); err != nil {
						return err
					}
					if err := s.read(tx, c); err != nil { // must return the same state
						return err
					}
					return tx.Set(c.Doc("result"), map[string]any{"n": 1})
				}, firestoreclient.MaxAttempts(1))
			if status.Code(err) != s.want {
				t.Errorf("commit error = %v, want %s", err, s.want)
			}
			_, err = c.Doc("result").Get(t.Context())
			if written := err == nil; written != (s.want == codes.OK) {
				t.Errorf("document written = %t, want %t (%v)", written, s.want == codes.OK, err)
			}
		})
	}
}

func TestEmbedded_TransactionReadsOneSnapshot(t *testing.T) {
	t.Parallel()
	if inProcess == nil {
		t.Skip("the embedded emulator was not chosen")
	}
	documents := client(t, inProcess.Host, "p-"+uuid.NewString(), "dev")
	one, two := documents.Doc("c/one"), documents.Doc("c/two")
	for range 20 {
		err := documents.RunTransaction(t.Context(), func(ctx context.Context, tx *firestoreclient.Transaction) error {
			before, err := tx.GetAll([]*firestoreclient.DocumentRef{one})
			if err != nil {
				return err
			}
			b := documents.Batch() //nolint:staticcheck // unlike its replacement, it is atomic
			b.Set(one, map[string]any{"n": firestoreclient.Increment(1)}, firestoreclient.MergeAll)
			b.Set(two, map[string]any{"n": firestoreclient.Increment(1)}, firestoreclient.MergeAll)
			if _, err := b.Commit(t.Context()); err != nil {
				return err
			}
			after, err := tx.GetAll([]*firestoreclient.DocumentRef{two})
			if err == nil && before[0].Data()["n"] != after[0].Data()["n"] {
				t.Errorf("read of one = %v and later read of two = %v, want the same count", before[0].Data(),
					after[0].Data())
			}
			return err
		}, firestoreclient.ReadOnly)
		if err != nil {
			t.Fatal(err)
		}
	}
}

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

// programs is how many random programs of concurrent transactions are run. The official emulator spends two seconds on
// every deadlock.
const programs = 3

// transfer is a transaction that moves an amount from one document to another, which it finds by name or by a query.
type transfer struct {
	from, to, amount int
	byQuery          bool
}

// concurrent is a program: the transfers of each worker, one after another; the workers run at once.
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

// TestConcurrentTransactions runs random transfers at once, on every emulator. However they meet: none is lost, none
// sees another half, and in the end all emulators hold the same.
func TestConcurrentTransactions(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, host string) {
		for seed := range programs {
			p := rapid.Custom(drawConcurrent).Example(seed)
			c := client(t, host, "p-"+uuid.NewString(), firestoreclient.DefaultDatabaseID)
			want := p.balances()
			if diff := cmp.Diff(want, p.run(t, c)); diff != "" {
				t.Errorf("program %d, %+v (-want +got):\n%s", seed, p, diff)
			}
		}
	})
}

// balances are what the accounts hold in the end, in whatever order the transfers are made.
func (p concurrent) balances() []int64 {
	held := make([]int64, p.accounts)
	for _, transfers := range p.workers {
		for _, tr := range transfers {
			held[tr.from] -= int64(tr.amount)
			held[tr.to] += int64(tr.amount)
		}
	}
	return held
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
					t.Errorf("%+v: %v", tr, err)
				}
			}
		})
	}
	workers.Wait()
	snaps, err := c.GetAll(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	held := make([]int64, len(snaps))
	for i, s := range snaps {
		held[i], _ = s.Data()["balance"].(int64)
	}
	return held
}

// make repeats the transfer until it is not refused any more.
func (tr transfer) make(ctx context.Context, c *firestoreclient.Client, all []*firestoreclient.DocumentRef) error {
	for {
		err := c.RunTransaction(ctx, func(ctx context.Context, tx *firestoreclient.Transaction) error {
			held, err := tr.read(tx, c, all)
			if err != nil {
				return err
			}
			if err := tx.Update(all[tr.from],
				[]firestoreclient.Update{{Path: "balance", Value: held[tr.from] - int64(tr.amount)}}); err != nil {
				return err
			}
			return tx.Update(all[tr.to],
				[]firestoreclient.Update{{Path: "balance", Value: held[tr.to] + int64(tr.amount)}})
		}, firestoreclient.MaxAttempts(1))
		if status.Code(err) != codes.Aborted {
			return err
		}
	}
}

// read finds what the accounts hold; those that are not needed may be left out. What is found together belongs
// together.
func (tr transfer) read(tx *firestoreclient.Transaction, c *firestoreclient.Client,
	all []*firestoreclient.DocumentRef) (map[int]int64, error) {
	held := map[int]int64{}
	if !tr.byQuery {
		snaps, err := tx.GetAll([]*firestoreclient.DocumentRef{all[tr.from], all[tr.to]})
		if err != nil {
			return nil, err
		}
		held[tr.from], _ = snaps[0].Data()["balance"].(int64)
		held[tr.to], _ = snaps[1].Data()["balance"].(int64)
		return held, nil
	}
	snaps, err := tx.Documents(c.Collection("accounts").OrderBy("balance", firestoreclient.Desc)).GetAll()
	if err != nil {
		return nil, err
	}
	sum := int64(0)
	for i, ref := range all {
		for _, s := range snaps {
			if s.Ref.ID == ref.ID {
				held[i], _ = s.Data()["balance"].(int64)
				sum += held[i]
			}
		}
	}
	if sum != 0 || len(snaps) != len(all) {
		return nil, fmt.Errorf("a transaction saw half of another: %v", held)
	}
	return held, nil
}

// TestConflicts says what transactions are refused for. Where the official emulator has the other writer wait, the
// embedded one goes on and refuses the transaction: the service does the one or the other, as the database is
// configured.
func TestConflicts(t *testing.T) {
	t.Parallel()
	if inProcess == nil {
		t.Skip("the embedded emulator was not chosen")
	}
	type steps struct {
		name string
		// read is what the transaction reads, and meanwhile is what happens then.
		read      func(tx *firestoreclient.Transaction, c *firestoreclient.CollectionRef) error
		meanwhile func(ctx context.Context, c *firestoreclient.CollectionRef) error
		want      codes.Code
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
		{name: "a document is changed", read: get("a"), meanwhile: set("a", 2), want: codes.Aborted},
		{name: "a document is deleted", read: get("a"), meanwhile: remove, want: codes.Aborted},
		{name: "a document comes into being", read: get("new"), meanwhile: set("new", 1), want: codes.Aborted},
		{name: "a document is written as it is", read: get("a"), meanwhile: set("a", 1), want: codes.OK},
		{name: "another document is changed", read: get("a"), meanwhile: set("b", 1), want: codes.OK},
		{name: "a result of a query is changed", read: find, meanwhile: set("b", 8), want: codes.Aborted},
		{name: "a document becomes a result", read: find, meanwhile: set("a", 8), want: codes.Aborted},
		{name: "a document stays out of a query", read: find, meanwhile: set("a", 2), want: codes.OK},
		{name: "nothing is read",
			read:      func(*firestoreclient.Transaction, *firestoreclient.CollectionRef) error { return nil },
			meanwhile: set("a", 2), want: codes.OK},
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
					if err := s.meanwhile(t.Context(), c); err != nil {
						return err
					}
					if err := s.read(tx, c); err != nil { // still as it was
						return err
					}
					return tx.Set(c.Doc("result"), map[string]any{"n": 1})
				}, firestoreclient.MaxAttempts(1))
			if status.Code(err) != s.want {
				t.Errorf("the commit: %v, want %s", err, s.want)
			}
			_, err = c.Doc("result").Get(t.Context())
			if written := err == nil; written != (s.want == codes.OK) {
				t.Errorf("the result is there: %t (%v)", written, err)
			}
		})
	}
}

// TestTransactionsReadOneState: what a transaction reads later is as it was when it read first.
func TestTransactionsReadOneState(t *testing.T) {
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
			b := documents.Batch() //nolint:staticcheck // atomic, unlike what it is deprecated for
			b.Set(one, map[string]any{"n": firestoreclient.Increment(1)}, firestoreclient.MergeAll)
			b.Set(two, map[string]any{"n": firestoreclient.Increment(1)}, firestoreclient.MergeAll)
			if _, err := b.Commit(t.Context()); err != nil {
				return err
			}
			after, err := tx.GetAll([]*firestoreclient.DocumentRef{two})
			if err == nil && before[0].Data()["n"] != after[0].Data()["n"] {
				t.Errorf("one is %v, and two is %v", before[0].Data(), after[0].Data())
			}
			return err
		}, firestoreclient.ReadOnly)
		if err != nil {
			t.Fatal(err)
		}
	}
}

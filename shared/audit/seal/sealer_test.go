package seal_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/audit/seal"
	"agents.example/controlplane/shared/testtier"
)

// TestSealer_SealsWhatIsSettled: an entry of a call that still runs is left to the next run, which seals it although
// later entries are sealed.
func TestSealer_SealsWhatIsSettled(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 60)
	f.Log[10].WrittenAt = start.Add(21 * time.Minute)
	f.Log[30].WrittenAt = start.Add(time.Hour)
	f.sealAt(40 * time.Minute)
	if got, want := f.Sealed[0].Count, 19; got != want {
		t.Errorf("%d entries sealed after 40 minutes, want %d", got, want)
	}
	if report := f.verify(nil); !report.Verified() || report.Unsealed != 41 {
		t.Errorf("report %+v, want 41 unsealed entries, one of them older than the seal, and no problem", report)
	}
	f.Log[30] = replaced(f.Log[30], "succeeded", "store_unavailable") // it ends with another outcome
	f.sealAt(80*time.Minute + time.Second)
	if report := f.verify(nil); !report.Verified() || report.Unsealed != 0 || len(f.Sealed) != 2 {
		t.Errorf("report %+v, %d seals; want all entries in 2 seals", report, len(f.Sealed))
	}
}

// TestSealer_ReadsNothingTwiceForLong: an organization without new entries gets one seal without leaves, and its
// entries are not read again.
func TestSealer_ReadsNothingTwiceForLong(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 60)
	f.sealAt(80 * time.Minute)
	f.sealAt(81 * time.Minute) // a second tick has no effect
	f.Log = append(f.Log, entryAt(100, 119*time.Minute))
	f.sealAt(2*time.Hour + 30*time.Minute)
	for hour := range 3 {
		f.sealAt(time.Duration(4+hour) * time.Hour)
	}
	if len(f.Sealed) != 3 || f.Sealed[2].Count != 0 {
		t.Fatalf("seals %+v, want 2 with leaves and then 1 without", f.Sealed)
	}
	f.Read = 0
	f.sealAt(8 * time.Hour)
	if f.Read != 0 {
		t.Errorf("%d entries read in an idle run, want 0", f.Read)
	}
	if report := f.verify(nil); !report.Verified() {
		t.Errorf("report %+v, want no problem", report)
	}
}

// TestSealer_BoundsSeals seals a log that has grown before the first run.
func TestSealer_BoundsSeals(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 0)
	const entries = 2*seal.MaxLeaves + 10
	for i := range entries {
		f.Log = append(f.Log, entryAt(i, time.Duration(i)*time.Millisecond))
	}
	f.sealAt(time.Hour)
	if len(f.Sealed) != 3 || f.Sealed[2].Count != 10 || f.Read != entries {
		t.Errorf("%d seals, %d entries read; want 3 seals, the last with 10 entries, and %d read",
			len(f.Sealed), f.Read, entries)
	}
	stored, err := json.Marshal(f.Sealed[0])
	if err != nil || len(stored) > 400_000 {
		t.Errorf("a full seal has %d bytes of JSON, %v; want far less than 1 MiB", len(stored), err)
	}
	if report := f.verify(nil); !report.Verified() || report.Unsealed != 0 {
		t.Errorf("report %+v, want no problem", report)
	}
}

// TestSealer_TwoConcurrentRunsSealEachEntryOnce also lets a run die after each of its seals.
func TestSealer_TwoConcurrentRunsSealEachEntryOnce(t *testing.T) {
	t.Parallel()
	for range testtier.Count(t, 1, 1, 2) {
		f := newFixture(t, 0)
		for i := range 3 * seal.MaxLeaves {
			f.Log = append(f.Log, entryAt(i, time.Duration(i)*time.Millisecond))
		}
		f.now = start.Add(time.Hour)
		var mu sync.Mutex
		attempts := 0
		f.OnCreate = func(seal.Seal) error {
			mu.Lock()
			defer mu.Unlock()
			if attempts++; attempts%3 == 2 {
				return errors.New("the process died")
			}
			return nil
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 3 {
					_ = (&seal.Sealer{Store: f.Memory, Now: f.Now}).Run(t.Context())
				}
			})
		}
		all.Wait()
		f.OnCreate = nil
		f.sealAt(2 * time.Hour)
		sealed := 0
		for _, s := range f.Sealed {
			sealed += s.Count
		}
		if report := f.verify(nil); !report.Verified() || sealed != len(f.Log) {
			t.Fatalf("report %+v, %d leaves; want %d and no problem", report, sealed, len(f.Log))
		}
	}
}

// TestSealer_StopsWhenAnotherIsFirst lets another sealer write a smaller first seal before this one does.
func TestSealer_StopsWhenAnotherIsFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 0)
	for i := range 2 * seal.MaxLeaves {
		f.Log = append(f.Log, entryAt(i, time.Duration(i)*time.Millisecond))
	}
	f.OnCreate = func(seal.Seal) error {
		f.OnCreate = nil
		leaf, err := seal.NewLeaf(f.Log[0])
		if err != nil {
			return err
		}
		rival, err := seal.New(organization, nil, []seal.Leaf{leaf}, f.Log[0].CreatedAt)
		f.Sealed = append(f.Sealed, rival)
		return err
	}
	f.sealAt(time.Hour)
	if len(f.Sealed) != 1 {
		t.Errorf("%d seals, want only the other sealer's", len(f.Sealed))
	}
	f.sealAt(2 * time.Hour)
	if report := f.verify(nil); !report.Verified() || report.Unsealed != 0 {
		t.Errorf("report %+v after the next run, want all entries sealed and no problem", report)
	}
}

func TestSealer_ReportsAnOrganizationThatItCannotSeal(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 3)
	cause := errors.New("refused")
	f.OnCreate = func(seal.Seal) error { return cause }
	f.now = start.Add(time.Hour)
	err := f.sealer.Run(t.Context())
	if !errors.Is(err, cause) || !strings.Contains(err.Error(), organization) {
		t.Errorf("error %v, want %v with the organization", err, cause)
	}
}

package imagetest

import (
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/image"
)

func everyField(t *testing.T, f Fixture) {
	full := Full("assistant")
	for _, v := range []any{full, full.Runtime, full.Versions[0], full.Versions[1]} {
		for _, field := range zeroFields(v) {
			if !slices.Contains([]string{"Revision", "Rest"}, field) { // the store sets them
				t.Errorf("Full does not set %T.%s: add it there", v, field)
			}
		}
	}
	stored := put(t, f.store(), full)
	wantSame(t, "the stored entry", stored, full)
	got := get(t, f.Processes[1].Store, full.ID)
	wantSame(t, "the entry of another process", got, full)
	if got.Revision != stored.Revision {
		t.Errorf("revision = %s, want that of the write, %s", got.Revision, stored.Revision)
	}
	all, err := f.store().List(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("list = %d entries, %v; want one", len(all), err)
	}
	wantSame(t, "the listed entry", all[0], full)
}

// zeroFields lists the fields of a struct that are not set.
func zeroFields(of any) []string {
	var names []string
	v := reflect.ValueOf(of)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			names = append(names, v.Type().Field(i).Name)
		}
	}
	return names
}

func emptyEntry(t *testing.T, f Fixture) {
	i := put(t, f.store(), Full("assistant"))
	least := image.Image{
		ID: i.ID, Name: "A", DefaultVersion: "1.1", Versions: []image.Version{{
			Version: "1.1", Reference: Reference("assistant", "2"), State: image.Available,
			CreatedAt: Now().Add(time.Hour),
		}}, Revision: i.Revision, Rest: i.Rest,
	}
	put(t, f.store(), least)
	wantSame(t, "the entry with fewer fields", get(t, f.store(), i.ID), least)
}

func listByID(t *testing.T, f Fixture) {
	wantEqual(t, "an empty catalog", listed(t, f.store()), nil)
	for _, id := range []string{"gamma", "alpha", "beta"} {
		put(t, f.store(), Full(id))
	}
	wantEqual(t, "the catalog", listed(t, f.Processes[1].Store), []string{"alpha", "beta", "gamma"})
}

func unknownEntry(t *testing.T, f Fixture) {
	for _, id := range []string{"assistant", "", "a/b", ".."} {
		_, err := f.store().Get(t.Context(), id)
		wantRefused(t, "get "+id, err, image.NotFound())
	}
	wantRefused(t, "remove", f.store().Remove(t.Context(), Full("assistant")), image.NotFound())
}

// race runs a write in every process concurrently and checks that one succeeds and the others lose.
func (f Fixture) race(t *testing.T, write func(p Process) error) {
	t.Helper()
	results := make([]error, len(f.Processes))
	var all sync.WaitGroup
	for i, p := range f.Processes {
		all.Go(func() { results[i] = write(p) })
	}
	all.Wait()
	won := 0
	for _, err := range results {
		if err == nil {
			won++
			continue
		}
		wantRefused(t, "the write that lost", err, image.Changed())
	}
	if won != 1 {
		t.Errorf("%d writes succeeded, want one", won)
	}
}

func creationsRace(t *testing.T, f Fixture) {
	f.race(t, func(p Process) error {
		_, err := p.Store.Put(t.Context(), Full("assistant"))
		return err
	})
	_, err := f.store().Put(t.Context(), Full("assistant"))
	wantRefused(t, "a creation of an entry that exists", err, image.Changed())
}

func changesRace(t *testing.T, f Fixture) {
	read := put(t, f.store(), Full("assistant"))
	f.race(t, func(p Process) error {
		changed := read
		changed.Name = "Another"
		_, err := p.Store.Put(t.Context(), changed)
		return err
	})
	read.Name = "Outdated"
	_, err := f.store().Put(t.Context(), read)
	wantRefused(t, "an outdated change", err, image.Changed())
	if got := get(t, f.store(), read.ID); got.Name != "Another" {
		t.Errorf("name = %s, want that of the change that won", got.Name)
	}
}

func removalLoses(t *testing.T, f Fixture) {
	read := put(t, f.store(), Full("assistant"))
	changed := read
	changed.Name = "Another"
	changed = put(t, f.Processes[1].Store, changed)
	wantRefused(t, "an outdated removal", f.store().Remove(t.Context(), read), image.Changed())
	wantSame(t, "the entry", get(t, f.store(), read.ID), changed)
}

func changeOfRemoved(t *testing.T, f Fixture) {
	read := put(t, f.store(), Full("assistant"))
	if err := f.Processes[1].Store.Remove(t.Context(), read); err != nil {
		t.Fatal(err)
	}
	_, err := f.store().Put(t.Context(), read)
	wantRefused(t, "a change", err, image.Changed())
	wantRefused(t, "another removal", f.store().Remove(t.Context(), read), image.Changed())
	_, err = f.store().Get(t.Context(), read.ID)
	wantRefused(t, "get", err, image.NotFound())
	wantEqual(t, "the catalog", listed(t, f.store()), nil)
}

func removedAndCreated(t *testing.T, f Fixture) {
	former := put(t, f.store(), Full("assistant"))
	if err := f.store().Remove(t.Context(), former); err != nil {
		t.Fatal(err)
	}
	second := put(t, f.store(), Full("assistant"))
	_, err := f.store().Put(t.Context(), former)
	wantRefused(t, "a change of the former entry", err, image.Changed())
	wantSame(t, "the entry", get(t, f.store(), second.ID), second)
}

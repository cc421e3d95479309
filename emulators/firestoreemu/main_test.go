//go:build unix

package firestoreemu_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"agents.example/controlplane/emulators/firestoreemu"
	"agents.example/controlplane/emulators/firestoreemu/embedded/index"
	"agents.example/controlplane/emulators/gcloud"
	"agents.example/controlplane/emulators/gcloud/gcloudtest"
)

// The emulators that the tests share; every test uses its own projects. TestMain sets them. An emulator that was not
// chosen or is not installed is nil.
var official, inProcess *firestoreemu.Emulator

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	flag.Parse()
	fail(flag.Set("rapid.nofailfile", "true")) // the seed is enough to run a failure again
	seeded := false
	flag.Visit(func(f *flag.Flag) { seeded = seeded || f.Name == "rapid.seed" })
	if !seeded {
		fail(flag.Set("rapid.seed", "1")) // the same programs in every run; -rapid.seed=0 draws new ones
	}
	choice, err := gcloudtest.Choice()
	if err != nil {
		fail(err)
		return code
	}
	ctx := context.Background()
	if choice != gcloud.Embedded {
		official, err = firestoreemu.Start(ctx, firestoreemu.Options{Choice: gcloud.Official})
		if choice == gcloud.Auto && errors.Is(err, gcloud.ErrMissing) {
			official, err = nil, nil
		}
		if err != nil {
			fail(err)
			return code
		}
	}
	if choice != gcloud.Official {
		inProcess, err = firestoreemu.Start(ctx, firestoreemu.Options{Choice: gcloud.Embedded, Indexes: everyIndex()})
		if err != nil {
			fail(err)
			return code
		}
	}
	fmt.Fprintf(os.Stderr, "tests run on: %v\n", kinds())
	code = m.Run()
	for _, e := range emulators() {
		fail(e.Close())
	}
	// A library of the Firestore client starts this goroutine in an init function and never stops it.
	return max(code,
		gcloudtest.CheckGoroutines(goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start")))
}

// emulators returns the running emulators.
func emulators() []*firestoreemu.Emulator {
	var running []*firestoreemu.Emulator
	for _, e := range []*firestoreemu.Emulator{official, inProcess} {
		if e != nil {
			running = append(running, e)
		}
	}
	return running
}

func kinds() []string {
	var kinds []string
	for _, e := range emulators() {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// onEach runs a test on every running emulator.
func onEach(t *testing.T, test func(t *testing.T, host string)) {
	t.Helper()
	for _, e := range emulators() {
		t.Run(e.Kind, func(t *testing.T) {
			t.Parallel()
			test(t, e.Host)
		})
	}
}

// queried is the collection of the random queries. queriedFields are the fields they filter and order by.
const queried = "things"

func queriedFields() []string { return []string{"a", "b", "m.x"} }

// everyIndex declares an index for every order by one or two of the queried fields, with and without an equality on
// another field.
func everyIndex() []byte {
	var d index.Declared
	directions := []string{"ASCENDING", "DESCENDING"}
	var orders [][]index.Field
	for _, one := range queriedFields() {
		for _, way := range directions {
			first := index.Field{FieldPath: one, Order: way}
			orders = append(orders, []index.Field{first})
			for _, two := range queriedFields() {
				for _, way := range directions {
					if two != one {
						orders = append(orders, []index.Field{first, {FieldPath: two, Order: way}})
					}
				}
			}
		}
	}
	for _, order := range orders {
		for _, equal := range append(queriedFields(), "") {
			for _, name := range directions {
				fields := append([]index.Field{}, order...)
				if equal != "" {
					fields = append([]index.Field{{FieldPath: equal, Order: "ASCENDING"}}, fields...)
				}
				fields = append(fields, index.Field{FieldPath: "__name__", Order: name})
				d.Indexes = append(d.Indexes,
					index.Composite{CollectionGroup: queried, QueryScope: index.Collection, Fields: fields})
			}
		}
	}
	// Equalities ordered by descending name.
	for _, equal := range queriedFields() {
		d.Indexes = append(d.Indexes,
			index.Composite{CollectionGroup: queried, QueryScope: index.Collection, Fields: []index.Field{
				{FieldPath: equal, Order: "ASCENDING"}, {FieldPath: "__name__", Order: "DESCENDING"},
			}})
	}
	file, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	return file
}

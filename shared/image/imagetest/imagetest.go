// Package imagetest is the conformance suite of image.Store and image.Catalog. The suite does not depend on an
// implementation: each adapter provides a Fixture.
package imagetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/plan"
)

// Fixture is an empty catalog, as processes see it.
type Fixture struct {
	// Processes are at least two processes.
	Processes []Process
	// Advance lets time pass for all processes.
	Advance func(time.Duration)
	// BuiltIn are the images of the settings of every process.
	BuiltIn image.BuiltIn
}

// Process is what one process has of the catalog.
type Process struct {
	Store   image.Store
	Catalog image.Catalog
}

// Full returns an entry with every field set, for tests that must notice a field that is forgotten. A new field of an
// entry is set here.
func Full(id string) image.Image {
	return image.Image{
		ID: id, Name: "Assistant", Description: "It answers.", DocsURL: "https://docs.example.com", MinPlan: plan.Pro,
		DefaultVersion: "1.1", DefaultBy: "assistant-1", Runtime: image.Runtime{
			Port: 4000, APIPort: 4001, HealthPath: "/healthz", BusyPath: "/busy", Auth: dataplane.AuthImage,
			Command: []string{"/assistant"}, Args: []string{"serve", "--quiet"},
			Env:      image.Env{{Name: "A", Value: "1"}, {Name: "B", Value: ""}},
			DataPath: "/data/assistant", Home: "/data/home", GraceSeconds: 60, PublicPaths: []string{"/hooks/"},
			Kernel: image.KernelLinux, Quiesce: "/quiesce", RestoreOnRevert: true,
		},
		Versions: []image.Version{
			{
				Version: "1.0", Reference: Reference(id, "1"), State: image.Withdrawn, Notes: "The first one.",
				CreatedAt: Now(),
			},
			{
				Version: "1.1", Reference: Reference(id, "2"), State: image.Available, Notes: "Faster.",
				CreatedAt: Now().Add(time.Hour),
			},
		},
	}
}

// Reference returns a reference to a build of an image. Its digest repeats one digit.
func Reference(name, digit string) string {
	return "registry.example.com/team/" + name + "@sha256:" + strings.Repeat(digit, 64)
}

// Now is a time that every store can represent exactly.
func Now() time.Time { return time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC) }

// Test tests that an image.Store and an image.Catalog keep their contracts. open makes an empty fixture.
func Test(t *testing.T, open func(*testing.T) Fixture) {
	for name, test := range map[string]func(*testing.T, Fixture){
		"every field is kept":                       everyField,
		"an entry has only what was put last":       emptyEntry,
		"entries are listed by id":                  listByID,
		"an unknown entry is not found":             unknownEntry,
		"one of two creations loses":                creationsRace,
		"one of two changes loses":                  changesRace,
		"an outdated removal loses":                 removalLoses,
		"a change of a removed entry loses":         changeOfRemoved,
		"a removed entry can be created again":      removedAndCreated,
		"lookups are at most image.MaxAge old":      lookupsAge,
		"a process sees its own writes immediately": ownWrites,
		"lookups have the images of the settings":   builtInImages,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func (f Fixture) store() image.Store { return f.Processes[0].Store }

// put writes an entry, which must succeed.
func put(t *testing.T, s image.Store, i image.Image) image.Image {
	t.Helper()
	stored, err := s.Put(t.Context(), i)
	if err != nil {
		t.Fatalf("put %s: %v", i.ID, err)
	}
	return stored
}

func get(t *testing.T, s image.Store, id string) image.Image {
	t.Helper()
	i, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatalf("get %s: %v", id, err)
	}
	return i
}

// lookUp returns the ids and names that a process finds in the catalog, such as "assistant=Assistant".
func lookUp(t *testing.T, p Process) []string {
	t.Helper()
	set, err := p.Catalog.Images(t.Context())
	if err != nil {
		t.Fatalf("look up the catalog: %v", err)
	}
	found := []string{}
	for _, i := range set.Catalog {
		found = append(found, i.ID+"="+i.Name)
	}
	return found
}

// wantSame compares an entry with what was put. Its revision and its rest are the store's.
func wantSame(t *testing.T, what string, got, want image.Image) {
	t.Helper()
	if got.Revision == "" {
		t.Errorf("%s has no revision", what)
	}
	got.Revision, want.Revision, got.Rest, want.Rest = "", "", nil, nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// wantRefused checks that a write failed with the fault, such as image_changed.
func wantRefused(t *testing.T, what string, err error, want *fault.Error) {
	t.Helper()
	if got := fault.From(err); err == nil || got.Kind != want.Kind || got.Code != want.Code {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func listed(t *testing.T, s image.Store) []string {
	t.Helper()
	all, err := s.List(t.Context())
	if err != nil {
		t.Fatalf("list the catalog: %v", err)
	}
	ids := []string{}
	for _, i := range all {
		ids = append(ids, i.ID)
	}
	return ids
}

func wantEqual(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

package imagetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/shared/image"
)

func lookupsAge(t *testing.T, f Fixture) {
	wantEqual(t, "the first lookup", lookUp(t, f.Processes[0]), nil)
	i := put(t, f.Processes[1].Store, Full("assistant"))
	f.Advance(image.MaxAge)
	wantEqual(t, "a lookup after another one's creation", lookUp(t, f.Processes[0]), []string{"assistant=Assistant"})
	i.Name = "Another"
	i = put(t, f.Processes[1].Store, i)
	f.Advance(image.MaxAge + time.Second)
	wantEqual(t, "a lookup after another one's change", lookUp(t, f.Processes[0]), []string{"assistant=Another"})
	if err := f.Processes[1].Store.Remove(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	f.Advance(image.MaxAge)
	wantEqual(t, "a lookup after another one's removal", lookUp(t, f.Processes[0]), nil)
}

func ownWrites(t *testing.T, f Fixture) {
	p := f.Processes[0]
	wantEqual(t, "the first lookup", lookUp(t, p), nil)
	i := put(t, p.Store, Full("assistant"))
	wantEqual(t, "a lookup after a creation", lookUp(t, p), []string{"assistant=Assistant"})
	i.Name = "Another"
	i = put(t, p.Store, i)
	wantEqual(t, "a lookup after a change", lookUp(t, p), []string{"assistant=Another"})
	if err := p.Store.Remove(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "a lookup after a removal", lookUp(t, p), nil)
}

func builtInImages(t *testing.T, f Fixture) {
	set, err := f.Processes[0].Catalog.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f.BuiltIn, set.BuiltIn); diff != "" {
		t.Errorf("the images of the settings (-want +got):\n%s", diff)
	}
}

package images

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"agents.example/controlplane/shared/image"
)

// TestRecipes_HaveAnEntryOfTheCatalog builds every version of the entries from their recipe, and what else they say is
// what the operator's tool accepts.
func TestRecipes_HaveAnEntryOfTheCatalog(t *testing.T) {
	t.Parallel()
	for _, name := range Recipes() {
		r, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := r.Catalog()
		if err != nil {
			t.Fatal(err)
		}
		var entry image.Image
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&entry); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i, v := range entry.Versions {
			s, ok, err := ParseSource(v.Reference)
			if want := (Source{Recipe: name, Version: v.Version}); !ok || err != nil || s != want {
				t.Errorf("%s: version %s is built from %q (%v)", name, v.Version, v.Reference, err)
			}
			if s.String() != v.Reference {
				t.Errorf("%q is written as %q", v.Reference, s)
			}
			entry.Versions[i].Reference = "registry.example.com/" + name + "@sha256:" + strings.Repeat("1", 64)
		}
		if err := entry.Check(); err != nil || entry.ID != name {
			t.Errorf("%s: the entry %s: %v", name, entry.ID, err)
		}
	}
}

func TestParseSource_RefusesWhatNamesNoVersion(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"recipe:openclaw", "recipe:openclaw@", "recipe:openclaw@../1", "recipe:openclaw@1 2", "recipe:none@1",
		"recipe:",
	} {
		if s, ok, err := ParseSource(text); !ok || err == nil {
			t.Errorf("%q is read as %v", text, s)
		}
	}
	if _, ok, err := ParseSource("registry.example.com/agent"); ok || err != nil {
		t.Errorf("a reference is taken for a recipe: %v, %v", ok, err)
	}
}

// TestKey_NamesEverythingThatAnImageIsMadeOf gives another file to another image.
func TestKey_NamesEverythingThatAnImageIsMadeOf(t *testing.T) {
	t.Parallel()
	r, err := Find("openclaw")
	if err != nil {
		t.Fatal(err)
	}
	key := func(r Recipe, version string) string {
		t.Helper()
		k, err := r.key(version)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	changed := r
	changed.Packages = []string{"git"}
	again, _ := Find(r.Name)
	if key(r, "1") != key(again, "1") || key(r, "1") == key(r, "2") || key(r, "1") == key(changed, "1") {
		t.Errorf("keys %s, %s, %s", key(r, "1"), key(r, "2"), key(changed, "1"))
	}
	files, err := r.own()
	if err != nil || len(files["start.sh"]) == 0 || len(files[recipeFile]) > 0 {
		t.Errorf("files of the image: %v, %v", files, err)
	}
}

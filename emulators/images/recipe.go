// Package images builds images of agent runtimes from packages of Debian and npm, without a container daemon. It knows
// the recipes in its folders, each with the entry of the catalog that its image needs. It does not run images.
package images

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

//go:embed n8n openclaw
var folders embed.FS

// Files of a recipe's folder that are not in its image. All others are in /opt/agent.
const (
	recipeFile  = "recipe.json"
	catalogFile = "catalog.json"
)

// Recipe is what an image is made of.
type Recipe struct {
	// Name is the recipe's folder, and the id of its image in the catalog.
	Name string `json:"-"`
	// Suite is the release of Debian, and Packages are those of its packages that the image has.
	Suite    string   `json:"suite"`
	Packages []string `json:"packages"`
	// Commands complete the packages of npm, whose own scripts do not run. They run in the image, in
	// /opt/app/node_modules. Tools are the packages of Debian that they need, and the image does not.
	Commands []string `json:"commands,omitempty"`
	Tools    []string `json:"tools,omitempty"`
	// Node is the version of Node.js, which comes from npm, too.
	Node string `json:"node"`
	// Program is the package of npm that the image runs, in the version that is asked for. What it needs is not younger
	// than Before, so that a version is the same whenever it is built.
	Program string `json:"program"`
	Before  string `json:"before"`
	// Start is the command of the image.
	Start []string `json:"start"`
	// Env is the environment of the image.
	Env map[string]string `json:"env,omitempty"`
}

// Recipes returns the names of all recipes.
func Recipes() []string {
	entries, _ := folders.ReadDir(".") // of an embedded folder
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// Find returns the recipe with a name.
func Find(name string) (Recipe, error) {
	if !slices.Contains(Recipes(), name) {
		return Recipe{}, fmt.Errorf("there is no recipe %q; want one of %s", name, strings.Join(Recipes(), ", "))
	}
	text, err := folders.ReadFile(path.Join(name, recipeFile))
	if err != nil {
		return Recipe{}, err
	}
	r := Recipe{Name: name}
	if err := json.Unmarshal(text, &r); err != nil {
		return Recipe{}, fmt.Errorf("read the recipe %s: %w", name, err)
	}
	return r, nil
}

// Catalog returns the entry of the catalog for the recipe's image. Its references are versions of the recipe: see
// Source.
func (r Recipe) Catalog() ([]byte, error) { return folders.ReadFile(path.Join(r.Name, catalogFile)) }

// own returns the files of the recipe's folder that its image has, by name.
func (r Recipe) own() (map[string][]byte, error) {
	entries, err := folders.ReadDir(r.Name)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if e.Name() == recipeFile || e.Name() == catalogFile || strings.HasSuffix(e.Name(), ".md") {
			continue
		}
		if files[e.Name()], err = folders.ReadFile(path.Join(r.Name, e.Name())); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// Source is a version of a recipe, as in recipe:openclaw@2026.9.6.
type Source struct{ Recipe, Version string }

const scheme = "recipe:"

// ParseSource reads a text such as recipe:openclaw@2026.9.6. ok is false for a text that names no recipe.
func ParseSource(text string) (s Source, ok bool, err error) {
	rest, ok := strings.CutPrefix(text, scheme)
	if !ok {
		return Source{}, false, nil
	}
	name, version, _ := strings.Cut(rest, "@")
	if _, err := Find(name); err != nil {
		return Source{}, true, err
	}
	if version == "" || strings.ContainsAny(version, `/\ `) || !fs.ValidPath(version) {
		return Source{}, true, errors.New(text + " names no version: want " + scheme + name + "@VERSION")
	}
	return Source{Recipe: name, Version: version}, true, nil
}

// String is what ParseSource reads.
func (s Source) String() string { return scheme + s.Recipe + "@" + s.Version }

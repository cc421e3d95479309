package functions_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReadmeTree keeps the tree in the README the tree: below each directory of the top level it names every package
// there, and no other.
func TestReadmeTree(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, house, _ := strings.Cut(string(readme), "## The house\n\n```\n")
	house, _, _ = strings.Cut(house, "\n```")
	named := map[string][]string{}
	top := ""
	name := regexp.MustCompile(`^[a-z]+/$`)
	for line := range strings.SplitSeq(house, "\n") {
		names, _, _ := strings.Cut(strings.TrimLeft(line, " "), "  ") // what they hold follows after some space
		if !strings.HasPrefix(line, " ") {
			top = strings.TrimSuffix(names, "/")
			continue
		}
		for _, word := range strings.Fields(names) {
			if name.MatchString(word) {
				named[top] = append(named[top], strings.TrimSuffix(word, "/"))
			}
		}
	}
	for _, top := range []string{"functions", "shared", "infra", "emulators"} {
		entries, err := os.ReadDir(filepath.Join("..", top))
		if err != nil {
			t.Fatal(err)
		}
		var there []string
		for _, e := range entries {
			if e.IsDir() && e.Name() != "testdata" {
				there = append(there, e.Name())
			}
		}
		slices.Sort(named[top])
		if !slices.Equal(named[top], there) {
			t.Errorf("the README's tree has below %s/:\n%v\nbut there are:\n%v", top, named[top], there)
		}
	}
}

package function

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestDuplicateKeys_NamesThePlaceOfEach(t *testing.T) {
	t.Parallel()
	for body, want := range map[string][]any{
		`{"a": 1, "b": {"a": 1}, "c": [{"a": 1}, {"a": 1}]}`: nil,
		`{"a": 1, "a": 2}`:                       {"body", "a"},
		`{"o": {"x": [], "a": 1, "a": 2}}`:       {"body", "o", "a"},
		`{"l": [0, [1], {"a": [1, 2], "a": 2}]}`: {"body", "l", 2, "a"},
		`[[], [[], {"a": {"b": 0, "b": 0}}]]`:    {"body", 1, 1, "a", "b"},
		`[]`:                                     nil, `"a"`: nil, `[{}, {"a": 1}, 3]`: nil,
	} {
		found := duplicateKeys([]byte(body))
		if want == nil && len(found) > 0 || want != nil && (len(found) != 1 || !reflect.DeepEqual(found[0].Loc, want)) {
			t.Errorf("%s: violations %+v, want one at %v", body, found, want)
		}
	}
}

// TestDuplicateKeys_BoundsWhatItAnswers repeats thousands of keys in an object that is thousands of arrays deep.
func TestDuplicateKeys_BoundsWhatItAnswers(t *testing.T) {
	t.Parallel()
	const depth, keys = 8000, 8000
	deep := strings.Repeat("[", depth) + "{" + strings.Repeat(`"a": 0, `, keys) + `"a": 0}` + strings.Repeat("]", depth)
	found, parts := duplicateKeys([]byte(deep)), 0
	for _, v := range found {
		parts += len(v.Loc)
	}
	if len(found) == 0 || parts > 2*maxPlaces+depth {
		t.Errorf("%d violations with %d parts, want some with at most %d", len(found), parts, 2*maxPlaces+depth)
	}
}

// BenchmarkDuplicateKeys compares a flat body with one that is about as deep as the parser admits.
func BenchmarkDuplicateKeys(b *testing.B) {
	const n = 9000
	for name, body := range map[string]string{
		"flat": "[" + strings.Repeat("[],", n-1) + "[]]",
		"deep": strings.Repeat("[", n) + strings.Repeat("]", n),
	} {
		b.Run(fmt.Sprintf("%s of %d bytes", name, len(body)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				duplicateKeys([]byte(body))
			}
		})
	}
}

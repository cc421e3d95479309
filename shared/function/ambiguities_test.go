package function

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestAmbiguities_NamesThePlaceOfEach(t *testing.T) {
	t.Parallel()
	for body, want := range map[string][]any{
		`{"a": 1, "b": {"a": 1}, "c": [{"a": 1}, {"a": 1}]}`: nil,
		`{"a": 1, "a": 2}`:                       {"body", "a"},
		`{"o": {"x": [], "a": 1, "a": 2}}`:       {"body", "o", "a"},
		`{"l": [0, [1], {"a": [1, 2], "a": 2}]}`: {"body", "l", 2, "a"},
		`[[], [[], {"a": {"b": 0, "b": 0}}]]`:    {"body", 1, 1, "a", "b"},
		`[]`:                                     nil, `"a"`: nil, `[{}, {"a": 1}, 3]`: nil,
		`{"a": "x\ud83d", "b": "\ud83d\ude00"}`:                                   {"body", "a"},
		`{"a": {"b": ["", "\ude00\ud83d"]}}`:                                      {"body", "a", "b", 1},
		`{"a": {"\ud83dx": 1}}`:                                                   {"body", "a", "\ufffdx"},
		`{"a": ["\ud83d\ud83d\ude00"]}`:                                           {"body", "a", 0},
		`["\ufffd", "�", "\\ud83d", "\n\ud83d\ude00\ud83d\ude00", {"\ufffd": 0}]`: nil,
	} {
		found := ambiguities([]byte(body))
		if want == nil && len(found) > 0 || want != nil && (len(found) != 1 || !reflect.DeepEqual(found[0].Loc, want)) {
			t.Errorf("%s: violations %+v, want one at %v", body, found, want)
		}
	}
}

// TestAmbiguities_BoundsWhatItAnswers repeats thousands of keys in an object. An answer with all their locations has
// hundreds of megabytes.
func TestAmbiguities_BoundsWhatItAnswers(t *testing.T) {
	t.Parallel()
	const many = 8000
	repeated := "{" + strings.Repeat(`"a": 0, `, many) + `"a": 0}`
	for name, body := range map[string]string{
		"flat":             repeated,
		"deep":             strings.Repeat("[", many) + repeated + strings.Repeat("]", many),
		"below a long key": `{"` + strings.Repeat("k", 100_000) + `": ` + repeated + `}`,
	} {
		found := ambiguities([]byte(body))
		answer, err := json.Marshal(found)
		if most := 3 * DefaultBodyLimit; err != nil || len(answer) > most {
			t.Errorf("%s: the answer has %d bytes (%v), want at most %d", name, len(answer), err, most)
		}
		if len(found) == 0 || len(found) > maxViolations {
			t.Errorf("%s: %d violations, want 1 to %d", name, len(found), maxViolations)
		}
	}
}

// BenchmarkAmbiguities compares a flat body with one that is about as deep as the parser admits.
func BenchmarkAmbiguities(b *testing.B) {
	const n = 9000
	for name, body := range map[string]string{
		"flat": "[" + strings.Repeat("[],", n-1) + "[]]",
		"deep": strings.Repeat("[", n) + strings.Repeat("]", n),
	} {
		b.Run(fmt.Sprintf("%s of %d bytes", name, len(body)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ambiguities([]byte(body))
			}
		})
	}
}

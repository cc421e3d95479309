package function

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	infer "github.com/google/jsonschema-go/jsonschema"
)

func TestRelax_ReadsEveryFormOfAWholeNumber(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ value, want any }{
		{json.Number("7"), json.Number("7")},
		{json.Number("7.0"), json.Number("7")},
		{json.Number("1e2"), json.Number("100")},
		{json.Number("-2.5E1"), json.Number("-25")},
		{json.Number("1e-1"), json.Number("1e-1")},
		{json.Number("1e16"), json.Number("1e16")},
		{json.Number("1e999999999"), json.Number("1e999999999")},
		{" 7 ", json.Number("7")},
		{"1e2", "1e2"},
		{"seven", "seven"},
		{true, json.Number("1")},
	} {
		if got := relax(&infer.Schema{Type: "integer"}, c.value); got != c.want {
			t.Errorf("relax(%#v) = %#v, want %#v", c.value, got, c.want)
		}
	}
}

func TestRelax_ReadsEveryFormOfABoolean(t *testing.T) {
	t.Parallel()
	long := json.Number("1." + strings.Repeat("0", maxIntegerText)) // takes time to parse if it is longer
	for _, c := range []struct{ value, want any }{
		{value: "Yes", want: true},
		{value: "off", want: false},
		{value: json.Number("1"), want: true},
		{value: json.Number("0.0"), want: false},
		{value: json.Number("1e0"), want: true},
		{value: json.Number("2"), want: json.Number("2")},
		{value: json.Number("1e1000000"), want: json.Number("1e1000000")},
		{value: long, want: long},
	} {
		if got := relax(&infer.Schema{Type: "boolean"}, c.value); got != c.want {
			t.Errorf("relax(%#v) = %#v, want %#v", c.value, got, c.want)
		}
	}
}

func TestRelax_ReadsTheElementsOfLists(t *testing.T) {
	t.Parallel()
	list := &infer.Schema{Type: "array", Items: &infer.Schema{
		Type: "object", Properties: map[string]*infer.Schema{"on": {Type: "boolean"}},
	}}
	given := []any{map[string]any{"on": "yes"}, map[string]any{"on": json.Number("0")}, "other"}
	want := []any{map[string]any{"on": true}, map[string]any{"on": false}, "other"}
	if got := relax(list, given); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

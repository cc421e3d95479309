package function

import (
	"encoding/json"
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

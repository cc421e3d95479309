package value_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/proto"

	"agents.example/controlplane/emulators/firestoreemu/embedded/value"
)

func integer(i int64) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_IntegerValue{IntegerValue: i}}
}

func double(f float64) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_DoubleValue{DoubleValue: f}}
}

func TestIncrement(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ old, by, want *firestorepb.Value }{
		"nothing":            {old: nil, by: integer(3), want: integer(3)},
		"no number":          {old: value.Map(nil), by: double(3), want: double(3)},
		"integers":           {old: integer(2), by: integer(-3), want: integer(-1)},
		"an integer, double": {old: integer(2), by: double(0.5), want: double(2.5)},
		"a double, integer":  {old: double(0.5), by: integer(2), want: double(2.5)},
		"the top":            {old: integer(math.MaxInt64), by: integer(0), want: integer(math.MaxInt64)},
		"over the top":       {old: integer(math.MaxInt64 - 1), by: integer(2), want: integer(math.MaxInt64)},
		"below the bottom":   {old: integer(math.MinInt64 + 1), by: integer(-2), want: integer(math.MinInt64)},
	} {
		got, told, err := value.Transform(row.old, &firestorepb.DocumentTransform_FieldTransform{
			TransformType: &firestorepb.DocumentTransform_FieldTransform_Increment{Increment: row.by},
		}, time.Time{})
		if err != nil || !proto.Equal(got, row.want) || !proto.Equal(told, row.want) {
			t.Errorf("%s: %v, told %v, %v", name, got, told, err)
		}
	}
}

func TestNumbersAreComparedAsTheyAre(t *testing.T) {
	t.Parallel()
	ordered := []*firestorepb.Value{
		double(math.NaN()), double(math.Inf(-1)), double(-1e300), integer(math.MinInt64), integer(-1), double(-0.5),
		integer(0), double(0.5),
		integer(1), integer(1 << 53), integer(1<<53 + 1), double(1<<53 + 2), integer(math.MaxInt64), double(1 << 63),
		double(math.Inf(1)),
	}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := value.Compare(a, b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%v and %v: %d", a, b, got)
			}
		}
	}
	if !value.Equal(integer(1), double(1)) || !value.Equal(double(0), double(math.Copysign(0, -1))) {
		t.Error("1 and 1.0, or 0 and -0, differ")
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]value.Path{
		"a": {"a"}, "a.b_1": {"a", "b_1"}, "`a.b`": {"a.b"}, "a.`b-c`.d": {"a", "b-c", "d"}, "`\\``": {"`"},
		"`\\\\`": {"\\"}, "`ü`": {"ü"},
	} {
		got, err := value.ParsePath(text)
		if err != nil || !slices.Equal(got, want) || got.String() != text {
			t.Errorf("%s: %q (%s), %v", text, got, got, err)
		}
	}
	for _, text := range []string{"", ".", "a.", ".a", "a..b", "1a", "a-b", "ü", "`a", "a`", "``", "`a`b", "`a\\"} {
		if got, err := value.ParsePath(text); err == nil {
			t.Errorf("%s is the path %q", text, got)
		}
	}
}

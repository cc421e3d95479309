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

func TestTransform_Increment(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ old, by, want *firestorepb.Value }{
		"missing field":       {old: nil, by: integer(3), want: integer(3)},
		"not a number":        {old: value.Map(nil), by: double(3), want: double(3)},
		"two integers":        {old: integer(2), by: integer(-3), want: integer(-1)},
		"integer plus double": {old: integer(2), by: double(0.5), want: double(2.5)},
		"double plus integer": {old: double(0.5), by: integer(2), want: double(2.5)},
		"maximum plus zero":   {old: integer(math.MaxInt64), by: integer(0), want: integer(math.MaxInt64)},
		"overflow":            {old: integer(math.MaxInt64 - 1), by: integer(2), want: integer(math.MaxInt64)},
		"underflow":           {old: integer(math.MinInt64 + 1), by: integer(-2), want: integer(math.MinInt64)},
	} {
		got, result, err := value.Transform(row.old, &firestorepb.DocumentTransform_FieldTransform{
			TransformType: &firestorepb.DocumentTransform_FieldTransform_Increment{Increment: row.by},
		}, time.Time{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !proto.Equal(got, row.want) {
			t.Errorf("%s: new value = %v, want %v", name, got, row.want)
		}
		if !proto.Equal(result, row.want) {
			t.Errorf("%s: result for the writer = %v, want %v", name, result, row.want)
		}
	}
}

func TestCompare_NumbersExactly(t *testing.T) {
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
				t.Errorf("Compare(%v, %v) = %d, want the sign of %d", a, b, got, i-j)
			}
		}
	}
	if !value.Equal(integer(1), double(1)) {
		t.Error("1 and 1.0 differ, want equal")
	}
	if !value.Equal(double(0), double(math.Copysign(0, -1))) {
		t.Error("0.0 and -0.0 differ, want equal")
	}
}

func TestParsePath_RoundTrips(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]value.Path{
		"a": {"a"}, "a.b_1": {"a", "b_1"}, "`a.b`": {"a.b"}, "a.`b-c`.d": {"a", "b-c", "d"}, "`\\``": {"`"},
		"`\\\\`": {"\\"}, "`ü`": {"ü"},
	} {
		got, err := value.ParsePath(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("ParsePath(%s) = %q, %v; want %q", text, got, err, want)
		}
		if got.String() != text {
			t.Errorf("String of the path %s = %s", text, got)
		}
	}
	for _, text := range []string{"", ".", "a.", ".a", "a..b", "1a", "a-b", "ü", "`a", "a`", "``", "`a`b", "`a\\"} {
		if got, err := value.ParsePath(text); err == nil {
			t.Errorf("ParsePath(%s) = %q, want an error", text, got)
		}
	}
}

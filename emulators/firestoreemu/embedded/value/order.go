// Package value implements Firestore's values: order, size, limits, field paths and field transforms.
//
// Values are never modified in place, because all readers share the stored ones. The package does not deal with
// document names, queries or commits.
package value

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
)

// rank is the position of a type in the order of types. Integers and doubles share one rank.
type rank int

const (
	rankNull rank = iota
	rankBool
	rankNumber
	rankTimestamp
	rankString
	rankBytes
	rankReference
	rankGeoPoint
	rankArray
	rankVector
	rankMap
)

// A map with this key and value is a vector.
const (
	typeKey    = "__type__"
	vectorType = "__vector__"
)

func rankOf(v *firestorepb.Value) rank {
	switch v := v.GetValueType().(type) {
	case *firestorepb.Value_BooleanValue:
		return rankBool
	case *firestorepb.Value_IntegerValue, *firestorepb.Value_DoubleValue:
		return rankNumber
	case *firestorepb.Value_TimestampValue:
		return rankTimestamp
	case *firestorepb.Value_StringValue:
		return rankString
	case *firestorepb.Value_BytesValue:
		return rankBytes
	case *firestorepb.Value_ReferenceValue:
		return rankReference
	case *firestorepb.Value_GeoPointValue:
		return rankGeoPoint
	case *firestorepb.Value_ArrayValue:
		return rankArray
	case *firestorepb.Value_MapValue:
		if v.MapValue.GetFields()[typeKey].GetStringValue() == vectorType {
			return rankVector
		}
		return rankMap
	default:
		return rankNull
	}
}

// Comparable reports whether a range filter can compare two values. A range only contains values of one type.
func Comparable(a, b *firestorepb.Value) bool { return rankOf(a) == rankOf(b) }

// Compare orders two values as Firestore's indexes do: by type, then by value.
func Compare(a, b *firestorepb.Value) int {
	r := rankOf(a)
	if c := cmp.Compare(r, rankOf(b)); c != 0 {
		return c
	}
	switch r {
	case rankBool:
		return compareBool(a.GetBooleanValue(), b.GetBooleanValue())
	case rankNumber:
		return compareNumber(a, b)
	case rankTimestamp:
		x, y := a.GetTimestampValue(), b.GetTimestampValue()
		return cmp.Or(cmp.Compare(x.GetSeconds(), y.GetSeconds()), cmp.Compare(x.GetNanos(), y.GetNanos()))
	case rankString:
		return strings.Compare(a.GetStringValue(), b.GetStringValue())
	case rankBytes:
		return bytes.Compare(a.GetBytesValue(), b.GetBytesValue())
	case rankReference:
		return CompareNames(a.GetReferenceValue(), b.GetReferenceValue())
	case rankGeoPoint:
		x, y := a.GetGeoPointValue(), b.GetGeoPointValue()
		return cmp.Or(cmp.Compare(x.GetLatitude(), y.GetLatitude()), cmp.Compare(x.GetLongitude(), y.GetLongitude()))
	case rankArray:
		return slices.CompareFunc(a.GetArrayValue().GetValues(), b.GetArrayValue().GetValues(), Compare)
	case rankVector:
		return compareVector(a.GetMapValue(), b.GetMapValue())
	case rankMap:
		return compareMap(a.GetMapValue().GetFields(), b.GetMapValue().GetFields())
	default:
		return 0
	}
}

// Equal reports whether a filter treats two values as equal: 1 equals 1.0.
func Equal(a, b *firestorepb.Value) bool { return Compare(a, b) == 0 }

// CompareNames orders document names segment by segment.
func CompareNames(a, b string) int {
	return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// compareNumber compares integers and doubles exactly, without converting the integer to a double. NaN comes first.
func compareNumber(a, b *firestorepb.Value) int {
	x, xInt := a.GetValueType().(*firestorepb.Value_IntegerValue)
	y, yInt := b.GetValueType().(*firestorepb.Value_IntegerValue)
	switch {
	case xInt && yInt:
		return cmp.Compare(x.IntegerValue, y.IntegerValue)
	case xInt:
		return -compareDoubleInt(b.GetDoubleValue(), x.IntegerValue)
	case yInt:
		return compareDoubleInt(a.GetDoubleValue(), y.IntegerValue)
	default:
		return cmp.Compare(a.GetDoubleValue(), b.GetDoubleValue())
	}
}

// two63 is the smallest double above every int64.
const two63 = 1 << 63

func compareDoubleInt(d float64, i int64) int {
	switch {
	case math.IsNaN(d), d < -two63:
		return -1
	case d >= two63:
		return 1
	}
	whole := math.Trunc(d)
	return cmp.Or(cmp.Compare(int64(whole), i), cmp.Compare(d, whole))
}

func compareVector(a, b *firestorepb.MapValue) int {
	x, y := a.GetFields()["value"].GetArrayValue().GetValues(), b.GetFields()["value"].GetArrayValue().GetValues()
	return cmp.Or(cmp.Compare(len(x), len(y)), slices.CompareFunc(x, y, Compare))
}

func compareMap(a, b map[string]*firestorepb.Value) int {
	x, y := slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b))
	for i := range min(len(x), len(y)) {
		if c := cmp.Or(strings.Compare(x[i], y[i]), Compare(a[x[i]], b[y[i]])); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(x), len(y))
}

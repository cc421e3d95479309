package value

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
)

// The limits of Firestore.
const (
	// MaxDocument is the maximum size of a document in bytes, including its name.
	MaxDocument = 1 << 20
	maxValue    = 1<<20 - 89
	maxName     = 1500
	maxDepth    = 20
)

// Storable returns the fields as Firestore stores them, with times truncated to microseconds, or an error if it refuses
// them.
func Storable(fields map[string]*firestorepb.Value) (map[string]*firestorepb.Value, error) {
	return storableMap(fields, 1)
}

func storableMap(fields map[string]*firestorepb.Value, depth int) (map[string]*firestorepb.Value, error) {
	stored := make(map[string]*firestorepb.Value, len(fields))
	for name, v := range fields {
		if err := checkName(name, v); err != nil {
			return nil, err
		}
		var err error
		if stored[name], err = storable(v, depth, false); err != nil {
			return nil, fmt.Errorf("property %s: %w", name, err)
		}
		if depth == 1 && sizeOf(v) > maxValue {
			return nil, fmt.Errorf("the value of property %q is longer than %d bytes", name, maxValue)
		}
	}
	return stored, nil
}

func checkName(name string, v *firestorepb.Value) error {
	switch {
	case name == "":
		return errors.New("a property's name can't be empty")
	case len(name) > maxName:
		return fmt.Errorf("the name of a property has %d bytes, more than %d", len(name), maxName)
	case name == typeKey && v.GetStringValue() == vectorType:
		return nil
	case reservedName.MatchString(name):
		return fmt.Errorf("property %s: names that begin and end with __ are reserved", name)
	default:
		return nil
	}
}

func storable(v *firestorepb.Value, depth int, inArray bool) (*firestorepb.Value, error) {
	switch t := v.GetValueType().(type) {
	case nil:
		return nil, errors.New("the value has no type")
	case *firestorepb.Value_TimestampValue:
		if err := t.TimestampValue.CheckValid(); err != nil {
			return nil, fmt.Errorf("invalid time: %w", err)
		}
		return Time(t.TimestampValue.AsTime()), nil
	case *firestorepb.Value_GeoPointValue:
		if p := t.GeoPointValue; p.GetLatitude() < -90 || p.GetLatitude() > 90 || p.GetLongitude() < -180 ||
			p.GetLongitude() > 180 {
			return nil, errors.New("latitudes are -90 to 90 and longitudes -180 to 180")
		}
		return v, nil
	case *firestorepb.Value_ArrayValue:
		if inArray {
			return nil, errors.New("an array can't hold an array")
		}
		return storableArray(t.ArrayValue, depth)
	case *firestorepb.Value_MapValue:
		if depth >= maxDepth {
			return nil, fmt.Errorf("maps and arrays are nested more than %d deep", maxDepth)
		}
		fields, err := storableMap(t.MapValue.GetFields(), depth+1)
		return Map(fields), err
	default:
		return v, nil
	}
}

func storableArray(a *firestorepb.ArrayValue, depth int) (*firestorepb.Value, error) {
	if depth >= maxDepth {
		return nil, fmt.Errorf("maps and arrays are nested more than %d deep", maxDepth)
	}
	stored := make([]*firestorepb.Value, len(a.GetValues()))
	for i, v := range a.GetValues() {
		var err error
		if stored[i], err = storable(v, depth+1, true); err != nil {
			return nil, err
		}
	}
	return array(stored), nil
}

func array(values []*firestorepb.Value) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_ArrayValue{ArrayValue: &firestorepb.ArrayValue{Values: values}}}
}

// Time returns a time as Firestore stores it, truncated to microseconds.
func Time(t time.Time) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_TimestampValue{TimestampValue: timestamppb.New(t.Truncate(time.Microsecond))}}
}

// Size returns the size of fields in bytes, by Firestore's published rules.
func Size(fields map[string]*firestorepb.Value) int {
	size := 0
	for name, v := range fields {
		size += len(name) + 1 + sizeOf(v)
	}
	return size
}

// NameSize returns the size of a path of ids from the root of the database, such as c/d.
func NameSize(ids []string) int {
	size := 16
	for _, id := range ids {
		size += len(id) + 1
	}
	return size
}

func sizeOf(v *firestorepb.Value) int {
	switch t := v.GetValueType().(type) {
	case *firestorepb.Value_NullValue, *firestorepb.Value_BooleanValue:
		return 1
	case *firestorepb.Value_StringValue:
		return len(t.StringValue) + 1
	case *firestorepb.Value_BytesValue:
		return len(t.BytesValue)
	case *firestorepb.Value_ReferenceValue:
		return len(t.ReferenceValue) + 1
	case *firestorepb.Value_GeoPointValue:
		return 16
	case *firestorepb.Value_ArrayValue:
		size := 0
		for _, e := range t.ArrayValue.GetValues() {
			size += sizeOf(e)
		}
		return size
	case *firestorepb.Value_MapValue:
		return Size(t.MapValue.GetFields())
	default:
		return 8
	}
}

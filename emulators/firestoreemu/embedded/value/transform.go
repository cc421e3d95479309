package value

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
)

// ErrUnimplemented is wrapped by errors about Firestore features that the embedded Firestore lacks.
var ErrUnimplemented = errors.New("not in the embedded Firestore")

// CheckTransform returns an error if a transformation is invalid for every field value.
func CheckTransform(t *firestorepb.DocumentTransform_FieldTransform) error {
	switch kind := t.GetTransformType().(type) {
	case *firestorepb.DocumentTransform_FieldTransform_SetToServerValue:
		if kind.SetToServerValue != firestorepb.DocumentTransform_FieldTransform_REQUEST_TIME {
			return errors.New("the server value is not specified")
		}
		return nil
	case *firestorepb.DocumentTransform_FieldTransform_Increment:
		if rankOf(kind.Increment) != rankNumber {
			return errors.New("an increment must be an integer or a double")
		}
		return nil
	case *firestorepb.DocumentTransform_FieldTransform_AppendMissingElements:
		_, err := storableArray(kind.AppendMissingElements, 1)
		return err
	case *firestorepb.DocumentTransform_FieldTransform_RemoveAllFromArray:
		return nil
	default:
		return fmt.Errorf("the transformation %T: %w", kind, ErrUnimplemented)
	}
}

// Transform returns the new value of a field and the result for the writer: the new value, or null after an array
// change. old is nil if the field does not exist. now is the commit time.
func Transform(old *firestorepb.Value, t *firestorepb.DocumentTransform_FieldTransform, now time.Time) (changed,
	told *firestorepb.Value, err error,
) {
	switch kind := t.GetTransformType().(type) {
	case *firestorepb.DocumentTransform_FieldTransform_SetToServerValue:
		v := Time(now.Truncate(time.Millisecond)) // Firestore's precision
		return v, v, nil
	case *firestorepb.DocumentTransform_FieldTransform_Increment:
		v := add(old, kind.Increment)
		return v, v, nil
	case *firestorepb.DocumentTransform_FieldTransform_AppendMissingElements:
		v, err := union(old, kind.AppendMissingElements)
		return v, null(), err
	case *firestorepb.DocumentTransform_FieldTransform_RemoveAllFromArray:
		v := array(slices.DeleteFunc(slices.Clone(old.GetArrayValue().GetValues()), func(v *firestorepb.Value) bool {
			return slices.ContainsFunc(kind.RemoveAllFromArray.GetValues(),
				func(o *firestorepb.Value) bool { return Equal(v, o) })
		}))
		return v, null(), nil
	default:
		return nil, nil, fmt.Errorf("the transformation %T: %w", kind, ErrUnimplemented)
	}
}

func null() *firestorepb.Value { return &firestorepb.Value{ValueType: &firestorepb.Value_NullValue{}} }

// union appends the missing elements. A value that is not an array is replaced.
func union(old *firestorepb.Value, added *firestorepb.ArrayValue) (*firestorepb.Value, error) {
	stored, err := storableArray(added, 1)
	if err != nil {
		return nil, err
	}
	all := slices.Clone(old.GetArrayValue().GetValues())
	for _, v := range stored.GetArrayValue().GetValues() {
		if !slices.ContainsFunc(all, func(o *firestorepb.Value) bool { return Equal(v, o) }) {
			all = append(all, v)
		}
	}
	return array(all), nil
}

// add adds to a number. A value that is not a number is replaced. Integers saturate at their limits.
func add(old, by *firestorepb.Value) *firestorepb.Value {
	if rankOf(old) != rankNumber {
		return by
	}
	x, xInt := old.GetValueType().(*firestorepb.Value_IntegerValue)
	y, yInt := by.GetValueType().(*firestorepb.Value_IntegerValue)
	if !xInt || !yInt {
		return &firestorepb.Value{ValueType: &firestorepb.Value_DoubleValue{DoubleValue: double(old) + double(by)}}
	}
	sum := x.IntegerValue + y.IntegerValue
	switch {
	case y.IntegerValue > 0 && sum < x.IntegerValue:
		sum = math.MaxInt64
	case y.IntegerValue < 0 && sum > x.IntegerValue:
		sum = math.MinInt64
	}
	return &firestorepb.Value{ValueType: &firestorepb.Value_IntegerValue{IntegerValue: sum}}
}

func double(v *firestorepb.Value) float64 {
	if i, ok := v.GetValueType().(*firestorepb.Value_IntegerValue); ok {
		return float64(i.IntegerValue)
	}
	return v.GetDoubleValue()
}

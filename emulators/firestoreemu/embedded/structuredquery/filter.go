package structuredquery

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"agents.example/controlplane/emulators/firestoreemu/embedded/value"
)

type operator = firestorepb.StructuredQuery_FieldFilter_Operator

// Short names for the operators.
const (
	less           = firestorepb.StructuredQuery_FieldFilter_LESS_THAN
	lessOrEqual    = firestorepb.StructuredQuery_FieldFilter_LESS_THAN_OR_EQUAL
	greater        = firestorepb.StructuredQuery_FieldFilter_GREATER_THAN
	greaterOrEqual = firestorepb.StructuredQuery_FieldFilter_GREATER_THAN_OR_EQUAL
	equal          = firestorepb.StructuredQuery_FieldFilter_EQUAL
	notEqual       = firestorepb.StructuredQuery_FieldFilter_NOT_EQUAL
	arrayContains  = firestorepb.StructuredQuery_FieldFilter_ARRAY_CONTAINS
	in             = firestorepb.StructuredQuery_FieldFilter_IN
)

// maxIn is the maximum number of values in an IN filter.
const maxIn = 30

// Filter is a condition on one field.
type Filter struct {
	Path value.Path
	op   operator
	v    *firestorepb.Value
}

// Inequality reports whether the filter selects a range. Its field then orders the results.
func (f Filter) Inequality() bool {
	switch f.op {
	case less, lessOrEqual, greater, greaterOrEqual, notEqual:
		return true
	default:
		return false
	}
}

// Contains reports whether the filter selects arrays that contain a value.
func (f Filter) Contains() bool { return f.op == arrayContains }

// matches reports whether a value satisfies the condition.
func (f Filter) matches(v *firestorepb.Value) bool {
	switch f.op {
	case equal:
		return value.Equal(v, f.v)
	case notEqual:
		return !isNull(v) && !value.Equal(v, f.v)
	case arrayContains:
		return slices.ContainsFunc(v.GetArrayValue().GetValues(),
			func(e *firestorepb.Value) bool { return value.Equal(e, f.v) })
	case in:
		return slices.ContainsFunc(f.v.GetArrayValue().GetValues(),
			func(e *firestorepb.Value) bool { return value.Equal(e, v) })
	default:
		return f.inRange(v)
	}
}

// inRange reports whether a value is in the range. A range only contains values of its type, and never NaN.
func (f Filter) inRange(v *firestorepb.Value) bool {
	if !value.Comparable(v, f.v) || isNaN(v) || isNaN(f.v) {
		return false
	}
	switch c := value.Compare(v, f.v); f.op {
	case less:
		return c < 0
	case lessOrEqual:
		return c <= 0
	case greater:
		return c > 0
	default:
		return c >= 0
	}
}

func isNull(v *firestorepb.Value) bool {
	_, ok := v.GetValueType().(*firestorepb.Value_NullValue)
	return ok
}

func isNaN(v *firestorepb.Value) bool { return math.IsNaN(v.GetDoubleValue()) }

// parseFilters parses a single filter, or several joined by AND.
func parseFilters(f *firestorepb.StructuredQuery_Filter) ([]Filter, error) {
	switch f := f.GetFilterType().(type) {
	case nil:
		return nil, nil
	case *firestorepb.StructuredQuery_Filter_CompositeFilter:
		if f.CompositeFilter.GetOp() != firestorepb.StructuredQuery_CompositeFilter_AND {
			return nil, fmt.Errorf("the composite filter %s: %w", f.CompositeFilter.GetOp(), ErrUnimplemented)
		}
		var all []Filter
		for _, inner := range f.CompositeFilter.GetFilters() {
			parsed, err := parseFilters(inner)
			if err != nil {
				return nil, err
			}
			all = append(all, parsed...)
		}
		return all, nil
	case *firestorepb.StructuredQuery_Filter_UnaryFilter:
		parsed, err := parseUnary(f.UnaryFilter)
		return []Filter{parsed}, err
	default:
		parsed, err := parseField(f.(*firestorepb.StructuredQuery_Filter_FieldFilter).FieldFilter)
		return []Filter{parsed}, err
	}
}

func parseUnary(f *firestorepb.StructuredQuery_UnaryFilter) (Filter, error) {
	p, err := value.ParsePath(f.GetField().GetFieldPath())
	if err != nil {
		return Filter{}, err
	}
	null := &firestorepb.Value{ValueType: &firestorepb.Value_NullValue{}}
	nan := &firestorepb.Value{ValueType: &firestorepb.Value_DoubleValue{DoubleValue: math.NaN()}}
	switch f.GetOp() {
	case firestorepb.StructuredQuery_UnaryFilter_IS_NULL:
		return Filter{p, equal, null}, nil
	case firestorepb.StructuredQuery_UnaryFilter_IS_NAN:
		return Filter{p, equal, nan}, nil
	default:
		return Filter{}, fmt.Errorf("the filter %s: %w", f.GetOp(), ErrUnimplemented)
	}
}

// comparesNullOrNaN reports whether a condition compares with null or NaN. Client libraries send IS_NULL and IS_NAN
// instead.
func comparesNullOrNaN(op operator, v *firestorepb.Value) bool {
	none := func(v *firestorepb.Value) bool { return isNull(v) || isNaN(v) }
	return op != arrayContains && none(v) || op == in && slices.ContainsFunc(v.GetArrayValue().GetValues(), none)
}

func parseField(f *firestorepb.StructuredQuery_FieldFilter) (Filter, error) {
	p, err := value.ParsePath(f.GetField().GetFieldPath())
	if err != nil {
		return Filter{}, err
	}
	parsed := Filter{p, f.GetOp(), f.GetValue()}
	switch f.GetOp() {
	case less, lessOrEqual, greater, greaterOrEqual, equal, notEqual, arrayContains:
	case in:
		if n := len(f.GetValue().GetArrayValue().GetValues()); n == 0 || n > maxIn {
			return Filter{}, fmt.Errorf("IN takes 1 to %d values, and has %d", maxIn, n)
		}
	default:
		return Filter{}, fmt.Errorf("the filter %s: %w", f.GetOp(), ErrUnimplemented)
	}
	if comparesNullOrNaN(f.GetOp(), f.GetValue()) {
		return Filter{}, fmt.Errorf("the filter %s for null or NaN, which have separate operators: %w", f.GetOp(),
			ErrUnimplemented)
	}
	if !isName(p) {
		return parsed, nil
	}
	if f.GetOp() == in || f.GetOp() == arrayContains {
		return Filter{}, fmt.Errorf("the filter %s of %s: %w", f.GetOp(), value.NamePath, ErrUnimplemented)
	}
	if _, ok := f.GetValue().GetValueType().(*firestorepb.Value_ReferenceValue); !ok {
		return Filter{}, errors.New(value.NamePath + " can only be compared with references")
	}
	return parsed, nil
}

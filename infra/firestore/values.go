package firestore

import (
	"fmt"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
)

// inDocument looks up the fields of a document that a listener received. It converts values as the client library does
// for documents that it reads. The library has no function for that.
func inDocument(d *firestorepb.Document) lookup {
	return func(name string) (any, error) {
		field, ok := d.GetFields()[name]
		if !ok {
			return nil, nil
		}
		return valueOf(field)
	}
}

func mapOf(fields map[string]*firestorepb.Value) (map[string]any, error) {
	values := make(map[string]any, len(fields))
	for name, field := range fields {
		value, err := valueOf(field)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", name, err)
		}
		values[name] = value
	}
	return values, nil
}

func valueOf(v *firestorepb.Value) (any, error) {
	switch v := v.GetValueType().(type) {
	case *firestorepb.Value_NullValue:
		return nil, nil
	case *firestorepb.Value_BooleanValue:
		return v.BooleanValue, nil
	case *firestorepb.Value_IntegerValue:
		return v.IntegerValue, nil
	case *firestorepb.Value_DoubleValue:
		return v.DoubleValue, nil
	case *firestorepb.Value_TimestampValue:
		return v.TimestampValue.AsTime(), v.TimestampValue.CheckValid()
	case *firestorepb.Value_StringValue:
		return v.StringValue, nil
	case *firestorepb.Value_BytesValue:
		return v.BytesValue, nil
	case *firestorepb.Value_ArrayValue:
		values := make([]any, len(v.ArrayValue.GetValues()))
		for i, item := range v.ArrayValue.GetValues() {
			var err error
			if values[i], err = valueOf(item); err != nil {
				return nil, err
			}
		}
		return values, nil
	case *firestorepb.Value_MapValue:
		return mapOf(v.MapValue.GetFields())
	default:
		return nil, fmt.Errorf("the type %T is not stored", v)
	}
}

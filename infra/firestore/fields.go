package firestore

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	gcp "cloud.google.com/go/firestore"
)

// fields lists what a document stores of a record. Documents are written and read through the same list, so a new
// stored field is one new line in it.
//
// A field that a document lacks leaves its place in the record as it is, and fields that are not listed survive an
// update. So functions of different releases can work on the same documents.
type fields []field

// field is the name of a field in a document, and its place in the record, such as text(&a.Name).
type field struct {
	name  string
	place place
}

// place is a variable of a record that can be stored.
type place interface {
	// encode returns the variable as documents hold it: nil, string, int64, float64, bool, time.Time, []byte, []any or
	// map[string]any.
	encode() any
	// decode sets the variable to a value from a document, which is never nil. name is the field's, for errors.
	decode(name string, value any) error
}

// encode returns the document of the record. Equal records have deeply equal documents.
func (f fields) encode() map[string]any {
	doc := make(map[string]any, len(f))
	for _, field := range f {
		doc[field.name] = field.place.encode()
	}
	return doc
}

// encodeNonZero is encode without zero values. It is for maps inside a document, which are always written whole: every
// stored field makes reading slower.
func (f fields) encodeNonZero() map[string]any {
	doc := make(map[string]any, len(f))
	for _, field := range f {
		if v := field.place.encode(); v != nil && v != "" && v != int64(0) && v != false {
			doc[field.name] = v
		}
	}
	return doc
}

// lookup returns a field of a document; nil if it is missing or null.
type lookup func(name string) (any, error)

// inMap looks up the fields of an encoded document.
func inMap(doc map[string]any) lookup {
	return func(name string) (any, error) { return doc[name], nil }
}

// inSnapshot looks up the fields of a document that exists. It converts one field at a time, because
// DocumentSnapshot.Data makes a map of all of them first, which takes as long as decoding them.
func inSnapshot(snap *gcp.DocumentSnapshot) lookup {
	path := make(gcp.FieldPath, 1)
	return func(name string) (any, error) {
		path[0] = name
		value, err := snap.DataAtPath(path)
		if err == nil {
			return value, nil
		}
		if _, missing := errors.AsType[*gcp.FieldNotFoundError](err); missing {
			return nil, nil
		}
		return nil, err
	}
}

// decode fills the record from a document. A field of a wrong type is an error, but the other fields are still read.
func (f fields) decode(find lookup) (err error) {
	for _, field := range f {
		value, wrong := find(field.name)
		if value != nil {
			wrong = field.place.decode(field.name, value)
		}
		if err == nil {
			err = wrong
		}
	}
	return err
}

// decode fills a record from a document that exists.
func decode(snap *gcp.DocumentSnapshot, f fields) error {
	if err := f.decode(inSnapshot(snap)); err != nil {
		return fmt.Errorf("decode a document of %s: %w", snap.Ref.Parent.ID, err)
	}
	return nil
}

// updates lists the fields of an encoded record for an update, which leaves the document's other fields as they are.
func updates(doc map[string]any) []gcp.Update {
	list := make([]gcp.Update, 0, len(doc))
	for name, value := range doc {
		list = append(list, gcp.Update{FieldPath: gcp.FieldPath{name}, Value: value})
	}
	return list
}

// cast asserts the type of a field's value.
func cast[T any](name string, value any) (T, error) {
	t, ok := value.(T)
	if !ok {
		return t, fmt.Errorf("the field %s is %T instead of %T", name, value, t)
	}
	return t, nil
}

type textPlace[S ~string] struct{ at *S }

func text[S ~string](at *S) place { return textPlace[S]{at} }

func (p textPlace[S]) encode() any { return string(*p.at) }

func (p textPlace[S]) decode(name string, value any) error {
	s, err := cast[string](name, value)
	*p.at = S(s)
	return err
}

// textsPlace stores a slice of strings as an array, or as null when it is empty.
type textsPlace struct{ at *[]string }

func texts(at *[]string) place { return textsPlace{at} }

func (p textsPlace) encode() any {
	if len(*p.at) == 0 {
		return nil
	}
	items := make([]any, len(*p.at))
	for i, s := range *p.at {
		items[i] = s
	}
	return items
}

func (p textsPlace) decode(name string, value any) error {
	values, err := cast[[]any](name, value)
	if err != nil || len(values) == 0 {
		return err
	}
	items := make([]string, len(values))
	for i, v := range values {
		if items[i], err = cast[string](name, v); err != nil {
			return err
		}
	}
	*p.at = items
	return nil
}

type numberPlace[N int | int64] struct{ at *N }

func number[N int | int64](at *N) place { return numberPlace[N]{at} }

func (p numberPlace[N]) encode() any { return int64(*p.at) }

// decode accepts a whole number that was stored as a double, as scripts do.
func (p numberPlace[N]) decode(name string, value any) error {
	if f, ok := value.(float64); ok && f == float64(int64(f)) {
		value = int64(f)
	}
	n, err := cast[int64](name, value)
	*p.at = N(n)
	return err
}

type floatPlace struct{ at *float64 }

func float(at *float64) place { return floatPlace{at} }

func (p floatPlace) encode() any { return *p.at }

func (p floatPlace) decode(name string, value any) (err error) {
	*p.at, err = cast[float64](name, value)
	return err
}

// optionalFloatPlace stores a number or null.
type optionalFloatPlace struct{ at **float64 }

func optionalFloat(at **float64) place { return optionalFloatPlace{at} }

func (p optionalFloatPlace) encode() any {
	if *p.at == nil {
		return nil
	}
	return **p.at
}

func (p optionalFloatPlace) decode(name string, value any) error {
	*p.at = new(float64)
	return floatPlace{*p.at}.decode(name, value)
}

type flagPlace struct{ at *bool }

func flag(at *bool) place { return flagPlace{at} }

func (p flagPlace) encode() any { return *p.at }

func (p flagPlace) decode(name string, value any) (err error) {
	*p.at, err = cast[bool](name, value)
	return err
}

// timePlace stores the zero time as null: queries for times that have come leave null out.
type timePlace struct{ at *time.Time }

func timestamp(at *time.Time) place { return timePlace{at} }

func (p timePlace) encode() any {
	if p.at.IsZero() {
		return nil
	}
	return storedTime(*p.at)
}

func (p timePlace) decode(name string, value any) (err error) {
	*p.at, err = cast[time.Time](name, value)
	return err
}

// storedTime is t as it will be read again: Firestore stores microseconds.
func storedTime(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// jsonPlace stores JSON as a string: a client's key need not be a field name that Firestore accepts.
type jsonPlace struct{ at *json.RawMessage }

func jsonText(at *json.RawMessage) place { return jsonPlace{at} }

func (p jsonPlace) encode() any { return string(*p.at) }

func (p jsonPlace) decode(name string, value any) error {
	s, err := cast[string](name, value)
	if s != "" {
		*p.at = json.RawMessage(s)
	}
	return err
}

// groupPlace stores several variables in a map. A compact map has no zero values.
type groupPlace struct {
	of      fields
	compact bool
}

func group(of fields) place { return groupPlace{of: of} }

func compactGroup(of fields) place { return groupPlace{of: of, compact: true} }

func (p groupPlace) encode() any {
	if p.compact {
		return p.of.encodeNonZero()
	}
	return p.of.encode()
}

func (p groupPlace) decode(name string, value any) error {
	doc, err := cast[map[string]any](name, value)
	if err != nil {
		return err
	}
	return p.of.decode(inMap(doc))
}

// optionalPlace stores a pointer to a struct as a map or null.
type optionalPlace[T any] struct {
	at *(*T)
	of func(*T) fields
}

func optional[T any](at **T, of func(*T) fields) place { return optionalPlace[T]{at, of} }

func (p optionalPlace[T]) encode() any {
	if *p.at == nil {
		return nil
	}
	return p.of(*p.at).encode()
}

func (p optionalPlace[T]) decode(name string, value any) error {
	*p.at = new(T)
	return group(p.of(*p.at)).decode(name, value)
}

// arrayPlace stores a slice of structs as an array of maps, or as null when it is empty.
type arrayPlace[T any] struct {
	at *[]T
	of func(*T) fields
}

func array[T any](at *[]T, of func(*T) fields) place { return arrayPlace[T]{at, of} }

func (p arrayPlace[T]) encode() any {
	if len(*p.at) == 0 {
		return nil
	}
	items := make([]any, len(*p.at))
	for i := range items {
		items[i] = p.of(&(*p.at)[i]).encodeNonZero()
	}
	return items
}

func (p arrayPlace[T]) decode(name string, value any) error {
	values, err := cast[[]any](name, value)
	if err != nil || len(values) == 0 {
		return err
	}
	items := make([]T, len(values))
	var item T
	of := p.of(&item)
	for i, v := range values {
		doc, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("the field %s has %T instead of a map", name, v)
		}
		if err := of.decode(inMap(doc)); err != nil {
			return err
		}
		var zero T
		items[i], item = item, zero
	}
	*p.at = items
	return nil
}

// mapPlace stores a map as it is, or null.
type mapPlace struct{ at *map[string]any }

func rawMap(at *map[string]any) place { return mapPlace{at} }

func (p mapPlace) encode() any {
	if *p.at == nil {
		return nil
	}
	return *p.at
}

func (p mapPlace) decode(name string, value any) (err error) {
	*p.at, err = cast[map[string]any](name, value)
	return err
}

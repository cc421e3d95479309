package firestore

import (
	"encoding/json"
	"fmt"
	"time"
)

// place is a variable of a record that can be stored.
type place interface {
	// encode returns the variable as documents hold it: nil, string, int64, float64, bool, time.Time, []byte, []any or
	// map[string]any.
	encode() any
	// decode sets the variable to a value from a document, which is never nil. name is the field's, for errors.
	decode(name string, value any) error
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
type textsPlace[L ~[]S, S ~string] struct{ at *L }

func texts[L ~[]S, S ~string](at *L) place { return textsPlace[L, S]{at} }

func (p textsPlace[L, S]) encode() any {
	if len(*p.at) == 0 {
		return nil
	}
	items := make([]any, len(*p.at))
	for i, s := range *p.at {
		items[i] = string(s)
	}
	return items
}

func (p textsPlace[L, S]) decode(name string, value any) error {
	values, err := cast[[]any](name, value)
	if err != nil || len(values) == 0 {
		return err
	}
	items := make(L, len(values))
	for i, v := range values {
		s, err := cast[string](name, v)
		if err != nil {
			return err
		}
		items[i] = S(s)
	}
	*p.at = items
	return nil
}

type numberPlace[N ~int | ~int64] struct{ at *N }

func number[N ~int | ~int64](at *N) place { return numberPlace[N]{at} }

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

// numbersPlace stores a slice of whole numbers as an array, or as null when it is empty.
type numbersPlace struct{ at *[]int }

func numbers(at *[]int) place { return numbersPlace{at} }

func (p numbersPlace) encode() any {
	if len(*p.at) == 0 {
		return nil
	}
	items := make([]any, len(*p.at))
	for i, n := range *p.at {
		items[i] = int64(n)
	}
	return items
}

func (p numbersPlace) decode(name string, value any) error {
	values, err := cast[[]any](name, value)
	if err != nil || len(values) == 0 {
		return err
	}
	items := make([]int, len(values))
	for i, v := range values {
		if err := (numberPlace[int]{&items[i]}).decode(name, v); err != nil {
			return err
		}
	}
	*p.at = items
	return nil
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

// optionalTimePlace stores a time or null.
type optionalTimePlace struct{ at **time.Time }

func optionalTimestamp(at **time.Time) place { return optionalTimePlace{at} }

func (p optionalTimePlace) encode() any {
	if *p.at == nil {
		return nil
	}
	return storedTime(**p.at)
}

func (p optionalTimePlace) decode(name string, value any) error {
	*p.at = new(time.Time)
	return timePlace{*p.at}.decode(name, value)
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

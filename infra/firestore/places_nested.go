package firestore

import "fmt"

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

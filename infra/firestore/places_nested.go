package firestore

import (
	"fmt"

	"agents.example/controlplane/shared/document"
)

// groupPlace stores several variables in a map. A compact map has no zero values.
type groupPlace struct {
	of             fields
	compact, keyed bool
}

func group(of fields) groupPlace { return groupPlace{of: of} }

func compactGroup(of fields) groupPlace { return groupPlace{of: of, compact: true} }

// keyedGroup is a group whose first field is its key: another value of it makes it another group, without the rest of
// the former one.
func keyedGroup(of fields) groupPlace { return groupPlace{of: of, keyed: true} }

// compactKeyedGroup is a keyedGroup without zero values.
func compactKeyedGroup(of fields) groupPlace { return groupPlace{of: of, compact: true, keyed: true} }

func (p groupPlace) encode() any { return p.encodeWith(nil) }

func (p groupPlace) encodeWith(r *document.Rest) any {
	encode := p.of.encodeWith
	if p.compact {
		encode = p.of.encodeNonZero
	}
	if p.keyed {
		return encodeKeyed(p.of, r, encode)
	}
	return encode(r)
}

func (p groupPlace) decode(name string, value any) error {
	_, err := p.decodeNested(name, value)
	return err
}

func (p groupPlace) decodeNested(name string, value any) (*document.Rest, error) {
	doc, err := cast[map[string]any](name, value)
	if err != nil {
		return nil, err
	}
	r, err := p.of.decodeMap(doc)
	if p.keyed {
		r = withKey(p.of, r, doc)
	}
	return r, err
}

// encodeKeyed encodes a map that may be another one than that of a rest.
func encodeKeyed(of fields, r *document.Rest, encode func(*document.Rest) map[string]any) map[string]any {
	doc := encode(nil)
	if r == nil {
		return doc
	}
	if r = r.Parts[new(elementKeys).next(of, doc)]; r == nil {
		return doc
	}
	return encode(r)
}

// withKey returns the rest of the map under its key.
func withKey(of fields, r *document.Rest, doc map[string]any) *document.Rest {
	if r == nil {
		return nil
	}
	return withPart(nil, new(elementKeys).next(of, doc), r)
}

// optionalPlace stores a pointer to a struct as a map or null.
type optionalPlace[T any] struct {
	at *(*T)
	of func(*T) fields
}

func optional[T any](at **T, of func(*T) fields) place { return optionalPlace[T]{at, of} }

func (p optionalPlace[T]) encode() any { return p.encodeWith(nil) }

func (p optionalPlace[T]) encodeWith(r *document.Rest) any {
	if *p.at == nil {
		return nil
	}
	return keyedGroup(p.of(*p.at)).encodeWith(r)
}

func (p optionalPlace[T]) decode(name string, value any) error {
	_, err := p.decodeNested(name, value)
	return err
}

func (p optionalPlace[T]) decodeNested(name string, value any) (*document.Rest, error) {
	*p.at = new(T)
	return keyedGroup(p.of(*p.at)).decodeNested(name, value)
}

// arrayPlace stores a slice of structs as an array of maps, or as null when it is empty.
type arrayPlace[T any] struct {
	at *[]T
	of func(*T) fields
}

func array[T any](at *[]T, of func(*T) fields) place { return arrayPlace[T]{at, of} }

func (p arrayPlace[T]) encode() any { return p.encodeWith(nil) }

func (p arrayPlace[T]) encodeWith(r *document.Rest) any {
	if len(*p.at) == 0 {
		return nil
	}
	items := make([]any, len(*p.at))
	var keys elementKeys
	for i := range items {
		of := p.of(&(*p.at)[i])
		doc := of.encodeNonZero(nil)
		if r != nil {
			doc = of.encodeNonZero(r.Parts[keys.next(of, doc)])
		}
		items[i] = doc
	}
	return items
}

func (p arrayPlace[T]) decode(name string, value any) error {
	_, err := p.decodeNested(name, value)
	return err
}

func (p arrayPlace[T]) decodeNested(name string, value any) (r *document.Rest, err error) {
	values, err := cast[[]any](name, value)
	if err != nil || len(values) == 0 {
		return nil, err
	}
	items := make([]T, len(values))
	var item T
	of := p.of(&item)
	var parts []*document.Rest // nil while there are none
	for i, v := range values {
		doc, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("the field %s has %T instead of a map", name, v)
		}
		part, err := of.decodeMap(doc)
		if err != nil {
			return nil, err
		}
		if part != nil && parts == nil {
			parts = make([]*document.Rest, len(values))
		}
		if part != nil {
			parts[i] = part
		}
		var zero T
		items[i], item = item, zero
	}
	*p.at = items
	var keys elementKeys
	for i, part := range parts {
		doc, _ := values[i].(map[string]any)
		r = withPart(r, keys.next(of, doc), part)
	}
	return r, nil
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

package firestore

import (
	"fmt"
	"maps"
	"strconv"

	"agents.example/controlplane/shared/document"
)

// A record that is written again must not lose what a later release stored inside of its groups and lists, because
// Firestore replaces these as a whole. So whoever reads a record to write it keeps its rest, in the record or until the
// write: see document.Rest, decodeWithRest and encodeWith.
//
// The rest of an element belongs to the element's key, which is the first of its fields: that of a variable named A
// survives every change of A, and goes with it. The same goes for a group that a record replaces as a whole, such as an
// agent's volume or its move: see compactKeyedGroup. Other groups, such as settings, keep theirs as long as the record.

// nestedPlace is a place that stores maps.
type nestedPlace interface {
	place
	// encodeWith returns the maps with the rest that decodeNested returned.
	encodeWith(r *document.Rest) any
	decodeNested(name string, value any) (*document.Rest, error)
}

var _ = []nestedPlace{groupPlace{}, optionalPlace[int]{}, arrayPlace[int]{}}

// encode encodes a field of a record that has a rest.
func (f field) encode(r *document.Rest) any {
	if r != nil && r.Parts[f.name] != nil {
		if p, ok := f.place.(nestedPlace); ok {
			return p.encodeWith(r.Parts[f.name])
		}
	}
	return f.place.encode()
}

// decode sets the field to a value of a document, and adds the rest of the value to that of the record.
func (f field) decode(value any, r *document.Rest) (*document.Rest, error) {
	switch value.(type) {
	case map[string]any, []any:
		if p, ok := f.place.(nestedPlace); ok {
			part, err := p.decodeNested(f.name, value)
			return withPart(r, f.name, part), err
		}
	}
	return r, f.place.decode(f.name, value)
}

// withPart adds the rest of a map to that of the map around it.
func withPart(r *document.Rest, name string, part *document.Rest) *document.Rest {
	if part == nil {
		return r
	}
	if r == nil {
		r = &document.Rest{}
	}
	if r.Parts == nil {
		r.Parts = map[string]*document.Rest{}
	}
	r.Parts[name] = part
	return r
}

// withUnknown adds the members of a map that are not listed to its rest.
func (f fields) withUnknown(r *document.Rest, doc map[string]any) *document.Rest {
	if r == nil {
		r = &document.Rest{}
	}
	r.Members = maps.Clone(doc)
	for _, field := range f {
		delete(r.Members, field.name)
	}
	return r
}

// addMembers adds the unknown members of a map to the encoded one.
func addMembers(doc map[string]any, r *document.Rest) map[string]any {
	if r != nil {
		maps.Copy(doc, r.Members)
	}
	return doc
}

// elementKeys names the elements of a list as they come.
type elementKeys struct{ seen map[string]int }

// next returns the key of an element that is encoded. Elements with the same key are told apart by their order.
func (k *elementKeys) next(of fields, element map[string]any) string {
	if k.seen == nil {
		k.seen = map[string]int{}
	}
	key := fmt.Sprint(element[of[0].name])
	k.seen[key]++
	return strconv.Itoa(k.seen[key]) + " " + key
}

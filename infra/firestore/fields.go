package firestore

import (
	"errors"
	"fmt"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/document"
)

// fields lists what a document stores of a record. Documents are written and read through the same list, so a new
// stored field is one new line in it.
//
// A field that a document lacks leaves its place in the record as it is. Fields that are not listed survive an update:
// it leaves those of the document as they are, and the rest of a record holds those of the maps inside; see rest.go. So
// functions of different releases can work on the same documents.
type fields []field

// field is the name of a field in a document, and its place in the record, such as text(&a.Name).
type field struct {
	name  string
	place place
}

// encode returns the document of the record. Equal records have deeply equal documents.
func (f fields) encode() map[string]any { return f.encodeWith(nil) }

// encodeWith is encode of a record that was read, and of its rest.
func (f fields) encodeWith(r *document.Rest) map[string]any {
	doc := make(map[string]any, len(f))
	for _, field := range f {
		doc[field.name] = field.encode(r)
	}
	return addMembers(doc, r)
}

// encodeNonZero is encodeWith without zero values. It is for maps inside a document, which are always written whole:
// every stored field makes reading slower.
func (f fields) encodeNonZero(r *document.Rest) map[string]any {
	doc := make(map[string]any, len(f))
	for _, field := range f {
		v := field.encode(r)
		if members, ok := v.(map[string]any); ok && len(members) == 0 {
			continue
		}
		if v != nil && v != "" && v != int64(0) && v != false {
			doc[field.name] = v
		}
	}
	return addMembers(doc, r)
}

// encodeMerge is encodeNonZero for a document that is merged with the stored one: a member of zero is deleted there.
func (f fields) encodeMerge() map[string]any {
	doc := f.encodeNonZero(nil)
	for _, field := range f {
		if _, ok := doc[field.name]; !ok {
			doc[field.name] = gcp.Delete
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

// decode fills the record from a document, and returns the rest of the document's maps. A field of a wrong type is an
// error, but the other fields are still read.
func (f fields) decode(find lookup) (r *document.Rest, err error) {
	for _, field := range f {
		value, wrong := find(field.name)
		if value != nil {
			r, wrong = field.decode(value, r)
		}
		if err == nil {
			err = wrong
		}
	}
	return r, err
}

// decodeMap is decode of a map inside a document, whose rest has the members that are not listed, too.
func (f fields) decodeMap(doc map[string]any) (r *document.Rest, err error) {
	known := 0
	for _, field := range f {
		value, ok := doc[field.name]
		if ok {
			known++
		}
		if value == nil {
			continue
		}
		var wrong error
		if r, wrong = field.decode(value, r); err == nil {
			err = wrong
		}
	}
	if known < len(doc) {
		r = f.withUnknown(r, doc)
	}
	return r, err
}

// decode fills a record from a document that exists.
func decode(snap *gcp.DocumentSnapshot, f fields) error {
	_, err := decodeWithRest(snap, f)
	return err
}

// decodeWithRest is decode of a record that is going to be written again.
func decodeWithRest(snap *gcp.DocumentSnapshot, f fields) (*document.Rest, error) {
	r, err := f.decode(inSnapshot(snap))
	if err != nil {
		return nil, fmt.Errorf("decode a document of %s: %w", snap.Ref.Parent.ID, err)
	}
	return r, nil
}

// updates lists the fields of an encoded record for an update, which leaves the document's other fields as they are.
func updates(doc map[string]any) []gcp.Update {
	list := make([]gcp.Update, 0, len(doc))
	for name, value := range doc {
		list = append(list, gcp.Update{FieldPath: gcp.FieldPath{name}, Value: value})
	}
	return list
}

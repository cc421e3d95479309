package firestore

import (
	"errors"
	"fmt"

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

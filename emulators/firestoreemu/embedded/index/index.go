// Package index knows which indexes Firestore keeps, and which of them serve a query.
//
// Firestore keeps an index of every field by itself, unless an override switches it off; every other index is declared.
// It merges indexes for a query when each begins with some of the fields that are filtered for equality and ends with
// the whole order. It does not know documents: whether a query is served depends on its shape only.
package index

import (
	"encoding/json"
	"fmt"
	"slices"

	"agents.example/controlplane/emulators/firestoreemu/embedded/structuredquery"
	"agents.example/controlplane/emulators/firestoreemu/embedded/value"
)

// Declared is what an index file declares, in the form that the Firebase tools and Terraform read.
type Declared struct {
	Indexes        []Composite `json:"indexes"`
	FieldOverrides []Override  `json:"fieldOverrides"`
}

// Composite is an index of several fields.
type Composite struct {
	CollectionGroup string  `json:"collectionGroup"`
	QueryScope      string  `json:"queryScope"`
	Fields          []Field `json:"fields"`
}

// Field is a field of an index, which has either an order or an array config.
type Field struct {
	FieldPath   string `json:"fieldPath"`
	Order       string `json:"order,omitempty"`
	ArrayConfig string `json:"arrayConfig,omitempty"`
}

// Override says which indexes of one field Firestore keeps.
type Override struct {
	CollectionGroup string `json:"collectionGroup"`
	FieldPath       string `json:"fieldPath"`
	Indexes         []struct {
		Order       string `json:"order"`
		ArrayConfig string `json:"arrayConfig"`
		QueryScope  string `json:"queryScope"`
	} `json:"indexes"`
}

// The modes of an index's field.
const (
	ascending  = "ASCENDING"
	descending = "DESCENDING"
	contains   = "CONTAINS"
	// Collection is the scope of an index that serves queries of one collection.
	Collection = "COLLECTION"
)

// Parse reads an index file; an empty one declares nothing.
func Parse(file []byte) (Declared, error) {
	var d Declared
	if len(file) == 0 {
		return d, nil
	}
	if err := json.Unmarshal(file, &d); err != nil {
		return d, fmt.Errorf("read the index file: %w", err)
	}
	for i, c := range d.Indexes {
		if c.CollectionGroup == "" || len(c.Fields) < 2 {
			return d, fmt.Errorf("read the index file: index %d is no composite one: it needs a collectionGroup and two fields", i)
		}
	}
	return d, nil
}

// Missing answers the index that a query needs and nobody declared, or nil when the query is served.
func (d Declared) Missing(q *structuredquery.Query) *Composite {
	s := shapeOf(q)
	if s.needsNothing() {
		return nil
	}
	if s.single() {
		if mode := s.switchedOff(d); mode != nil {
			return &Composite{CollectionGroup: q.Collection, QueryScope: Collection, Fields: []Field{*mode}}
		}
		return nil
	}
	served := map[Field]bool{}
	found := false
	for _, c := range d.Indexes {
		prefix, ok := s.usable(c)
		if !ok {
			continue
		}
		found = true
		for _, f := range prefix {
			served[f] = true
		}
	}
	if found && !slices.ContainsFunc(s.equal, func(f Field) bool { return !served[f] }) {
		return nil
	}
	fields := slices.Concat(s.equal, s.order)
	return &Composite{CollectionGroup: q.Collection, QueryScope: Collection, Fields: fields}
}

// shape is what of a query matters to indexes.
type shape struct {
	collection string
	// equal are the fields that are filtered for equality, as ascending, or for an array's element.
	equal []Field
	// order is the whole order, the document's name included.
	order []Field
}

func shapeOf(q *structuredquery.Query) shape {
	s := shape{collection: q.Collection}
	ranged := map[string]bool{}
	for _, f := range q.Filters {
		field := Field{FieldPath: f.Path.String(), Order: ascending}
		if f.Contains() {
			field = Field{FieldPath: f.Path.String(), ArrayConfig: contains}
		}
		if !f.Inequality() && field.FieldPath != value.NamePath && !slices.Contains(s.equal, field) {
			s.equal = append(s.equal, field)
		}
		ranged[field.FieldPath] = f.Inequality()
	}
	var name []Field
	for _, o := range q.Orders {
		field := Field{FieldPath: o.Path.String(), Order: ascending}
		if o.Descending {
			field.Order = descending
		}
		switch {
		case o.IsName():
			name = []Field{field}
		case name == nil || ranged[field.FieldPath]: // of what comes after the unique name, only ranges need an index
			s.order = append(s.order, field)
		}
	}
	s.order = append(s.order, name...)
	return s
}

// plainName reports whether the order ends as the indexes do that Firestore keeps: the name goes the way of the field
// before it.
func (s shape) plainName() bool {
	last := len(s.order) - 1
	if last == 0 {
		return s.order[0].Order == ascending
	}
	return s.order[last].FieldPath == value.NamePath && s.order[last].Order == s.order[last-1].Order
}

// needsNothing is for what the collection itself serves.
func (s shape) needsNothing() bool { return len(s.equal) == 0 && len(s.order) == 1 && s.plainName() }

// single is for what the indexes serve that Firestore keeps of every field: any equalities, or one order.
func (s shape) single() bool {
	return s.plainName() && (len(s.order) == 1 || len(s.order) == 2 && len(s.equal) == 0)
}

// switchedOff finds a field whose own index the query needs and an override switches off.
func (s shape) switchedOff(d Declared) *Field {
	needed := s.equal
	if len(s.order) == 2 {
		needed = s.order[:1]
	}
	for _, f := range needed {
		if !d.keeps(s.collection, f) {
			return &f
		}
	}
	return nil
}

// keeps reports whether Firestore keeps the index of a field. What is below a field has its override, unless it has its
// own.
func (d Declared) keeps(collection string, f Field) bool {
	path, err := value.ParsePath(f.FieldPath)
	if err != nil {
		return true
	}
	depth, kept := 0, true
	for _, o := range d.FieldOverrides {
		p, err := value.ParsePath(o.FieldPath)
		if err != nil || o.CollectionGroup != collection || !path.Within(p) || len(p) <= depth {
			continue
		}
		depth, kept = len(p), false
		for _, i := range o.Indexes {
			kept = kept || i.Order == f.Order && i.ArrayConfig == f.ArrayConfig &&
				(i.QueryScope == "" || i.QueryScope == Collection)
		}
	}
	return kept
}

// usable answers the fields for equality with which an index begins, when it serves the query together with others.
func (s shape) usable(c Composite) (prefix []Field, ok bool) {
	fields := slices.Clone(c.Fields)
	if last := fields[len(fields)-1]; last.FieldPath != value.NamePath {
		fields = append(fields, Field{FieldPath: value.NamePath, Order: nameOrder(last)})
	}
	n := len(fields) - len(s.order)
	if c.CollectionGroup != s.collection || c.QueryScope != Collection || n < 0 || !slices.Equal(fields[n:], s.order) {
		return nil, false
	}
	for i := range fields[:n] {
		if fields[i].Order != "" {
			fields[i].Order = ascending // equal values have no order
		}
	}
	for _, f := range fields[:n] {
		if !slices.Contains(s.equal, f) {
			return nil, false
		}
	}
	return fields[:n], true
}

// nameOrder is the order of the name in an index that does not tell: that of the last field.
func nameOrder(last Field) string {
	if last.Order == descending {
		return descending
	}
	return ascending
}

// Package index decides whether Firestore can serve a query from the declared indexes, and names the missing one.
//
// Firestore indexes every single field unless an override disables that; every other index must be declared. It can
// merge several indexes for a query if each of them starts with some of the fields filtered for equality and ends with
// the whole order. The package does not read documents: the shape of a query decides whether it is served.
package index

import (
	"encoding/json"
	"fmt"
	"slices"

	"agents.example/controlplane/emulators/firestoreemu/embedded/structuredquery"
	"agents.example/controlplane/emulators/firestoreemu/embedded/value"
)

// Declared is the content of an index file, in the format of the Firebase tools and Terraform.
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

// Field is a field of an index. It has either an order or an array config.
type Field struct {
	FieldPath   string `json:"fieldPath"`
	Order       string `json:"order,omitempty"`
	ArrayConfig string `json:"arrayConfig,omitempty"`
}

// Override lists the indexes that Firestore keeps for one field.
type Override struct {
	CollectionGroup string `json:"collectionGroup"`
	FieldPath       string `json:"fieldPath"`
	Indexes         []struct {
		Order       string `json:"order"`
		ArrayConfig string `json:"arrayConfig"`
		QueryScope  string `json:"queryScope"`
	} `json:"indexes"`
}

// The modes of an index field.
const (
	ascending  = "ASCENDING"
	descending = "DESCENDING"
	contains   = "CONTAINS"
	// Collection is the scope of an index that serves queries of one collection.
	Collection = "COLLECTION"
)

// Parse reads an index file. An empty file declares no index.
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
			return d, fmt.Errorf("read the index file: index %d is not composite: it needs a collectionGroup and at "+
				"least two fields", i)
		}
	}
	return d, nil
}

// Missing returns the index that a query needs and the file does not declare, or nil if the query can be served.
func (d Declared) Missing(q *structuredquery.Query) *Composite {
	s := shapeOf(q)
	if s.needsNoIndex() {
		return nil
	}
	if s.usesSingleFieldIndexes() {
		if mode := s.disabledField(d); mode != nil {
			return &Composite{CollectionGroup: q.Collection, QueryScope: Collection, Fields: []Field{*mode}}
		}
		return nil
	}
	served := map[Field]bool{}
	found := false
	for _, c := range d.Indexes {
		prefix, ok := s.equalityPrefix(c)
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

// shape is the part of a query that decides which indexes it needs.
type shape struct {
	collection string
	// equal are the fields filtered for equality (as ascending) or for an array element.
	equal []Field
	// order is the complete order, including the document name.
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
		case name == nil || ranged[field.FieldPath]: // after the unique name, only ranges need an index
			s.order = append(s.order, field)
		}
	}
	s.order = append(s.order, name...)
	return s
}

// hasDefaultNameOrder reports whether the document name has the same direction as the field before it, as in the
// indexes that Firestore keeps by default.
func (s shape) hasDefaultNameOrder() bool {
	last := len(s.order) - 1
	if last == 0 {
		return s.order[0].Order == ascending
	}
	return s.order[last].FieldPath == value.NamePath && s.order[last].Order == s.order[last-1].Order
}

// needsNoIndex reports whether the collection itself serves the query.
func (s shape) needsNoIndex() bool {
	return len(s.equal) == 0 && len(s.order) == 1 && s.hasDefaultNameOrder()
}

// usesSingleFieldIndexes reports whether single-field indexes serve the query: any number of equalities, or one order.
func (s shape) usesSingleFieldIndexes() bool {
	return s.hasDefaultNameOrder() && (len(s.order) == 1 || len(s.order) == 2 && len(s.equal) == 0)
}

// disabledField returns a field whose single-field index the query needs and an override disables.
func (s shape) disabledField(d Declared) *Field {
	needed := s.equal
	if len(s.order) == 2 {
		needed = s.order[:1]
	}
	for _, f := range needed {
		if !d.keepsIndex(s.collection, f) {
			return &f
		}
	}
	return nil
}

// keepsIndex reports whether Firestore keeps a single-field index. The override of a field also applies to the fields
// below it that have no override themselves.
func (d Declared) keepsIndex(collection string, f Field) bool {
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

// equalityPrefix returns the equality fields at the start of an index, if the index can serve the query, alone or
// merged with others.
func (s shape) equalityPrefix(c Composite) (prefix []Field, ok bool) {
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

// nameOrder returns the implicit order of the document name in an index: the order of the last field.
func nameOrder(last Field) string {
	if last.Order == descending {
		return descending
	}
	return ascending
}

package page

import (
	"net/url"
	"strconv"

	"github.com/google/jsonschema-go/jsonschema"
)

// Query holds the query parameters of a list.
type Query struct {
	Limit  Limit  `json:"limit,omitempty"`
	Cursor string `json:"cursor,omitempty" jsonschema:"The X-Next-Cursor of the previous page; absent for the first page."`
}

// Limit is the maximum number of items on a page, 1 to MaxLimit.
type Limit int

// JSONSchema implements function.Schemer.
func (Limit) JSONSchema() *jsonschema.Schema {
	least, most := 1.0, float64(MaxLimit)
	return &jsonschema.Schema{
		Type: "integer", Minimum: &least, Maximum: &most, Default: []byte(strconv.Itoa(DefaultLimit)),
		Description: "The maximum number of items on the page.",
	}
}

// Term is text that filters a list. No filterable value is longer than maxTerm.
type Term string

// maxTerm is the maximum length of a term in characters, because Firestore compares at most 1,500 bytes.
const maxTerm = 300

// JSONSchema implements function.Schemer.
func (Term) JSONSchema() *jsonschema.Schema {
	most := maxTerm
	return &jsonschema.Schema{Type: "string", MaxLength: &most}
}

// Request returns the requested page, with the default limit if the query has none.
func (q Query) Request() Request {
	r := Request{Limit: int(q.Limit), Cursor: q.Cursor}
	if r.Limit == 0 {
		r.Limit = DefaultLimit
	}
	return r
}

// Values returns the query without the cursor, for the link to the next page.
func (q Query) Values() url.Values {
	v := url.Values{}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(int(q.Limit)))
	}
	return v
}

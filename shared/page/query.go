package page

import (
	"net/url"
	"strconv"

	"github.com/google/jsonschema-go/jsonschema"
)

// Query is the query parameters of a list.
type Query struct {
	Limit  Limit  `json:"limit,omitempty"`
	Cursor string `json:"cursor,omitempty" jsonschema:"Where to go on: the X-Next-Cursor of the page before."`
}

// Limit is how many items a page has at most, 1 to MaxLimit.
type Limit int

// JSONSchema implements function.Schemer.
func (Limit) JSONSchema() *jsonschema.Schema {
	least, most := 1.0, float64(MaxLimit)
	return &jsonschema.Schema{
		Type: "integer", Minimum: &least, Maximum: &most, Default: []byte(strconv.Itoa(DefaultLimit)),
		Description: "How many items a page has at most.",
	}
}

// Term is text that a list is filtered by. Nothing that is kept to be found is longer.
type Term string

// maxTerm is the length of the longest term in characters: a store compares no more than 1,500 bytes.
const maxTerm = 300

// JSONSchema implements function.Schemer.
func (Term) JSONSchema() *jsonschema.Schema {
	most := maxTerm
	return &jsonschema.Schema{Type: "string", MaxLength: &most}
}

// Request is the page that is asked for.
func (q Query) Request() Request {
	r := Request{Limit: int(q.Limit), Cursor: q.Cursor}
	if r.Limit == 0 {
		r.Limit = DefaultLimit
	}
	return r
}

// Values is the query without its cursor, for the link to the next page.
func (q Query) Values() url.Values {
	v := url.Values{}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(int(q.Limit)))
	}
	return v
}

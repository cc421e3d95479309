package function

import (
	"bytes"
	"encoding/json"
)

const duplicateKeyText = "the key appears twice in one object; send it once"

// duplicateKeys returns a violation for each repeated key in an object of the body, which must be valid JSON. Parsers
// differ in which of the two values counts: a proxy that checked the body may have seen the other one.
func duplicateKeys(body []byte) []Violation {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var found []Violation
	open := []container{{loc: []any{"body"}}}
	for {
		token, err := d.Token()
		if err != nil {
			return found // end of the body
		}
		current := &open[len(open)-1]
		switch token {
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
			continue
		}
		if current.expectsKey() {
			current.key, _ = token.(string)
			if current.seen[current.key] {
				found = append(found, Violation{
					Loc: current.location(), Type: "value_error", Msg: "Value error, " + duplicateKeyText,
					Ctx: map[string]any{"error": duplicateKeyText},
				})
			}
			current.seen[current.key] = true
			current.awaitsValue = true
			continue
		}
		at := current.location()
		current.index++
		current.awaitsValue = false
		switch token {
		case json.Delim('{'):
			open = append(open, container{loc: at, seen: map[string]bool{}})
		case json.Delim('['):
			open = append(open, container{loc: at, list: true})
		}
	}
}

// container is an object or array that is still open, or the whole body.
type container struct {
	loc []any
	// seen holds the keys of an object so far; nil for an array and for the whole body.
	seen map[string]bool
	// key is the last key of an object. awaitsValue is true between a key and its value.
	key         string
	awaitsValue bool
	list        bool
	index       int
}

func (s *container) expectsKey() bool { return s.seen != nil && !s.awaitsValue }

// location returns the location of the next value.
func (s *container) location() []any {
	at := s.loc[:len(s.loc):len(s.loc)]
	switch {
	case s.seen != nil:
		return append(at, s.key)
	case s.list:
		return append(at, s.index)
	default:
		return at
	}
}

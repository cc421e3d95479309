package function

import (
	"bytes"
	"encoding/json"

	"agents.example/controlplane/shared/fault"
)

const duplicateKeyText = "the key appears twice in one object; send it once"

// duplicateKeys returns a violation for each repeated key in an object of the body, which must be valid JSON. Parsers
// differ in which of the two values counts: a proxy that checked the body may have seen the other one.
func duplicateKeys(body []byte) []Violation {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var found violationList
	open := []container{{}}
	for {
		token, err := d.Token()
		if err != nil {
			return found.all // end of the body
		}
		current := &open[len(open)-1]
		switch token {
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
			continue
		}
		if current.expectsKey() {
			current.key, _ = token.(string)
			if current.seen[current.key] && !found.full() {
				found.add(fault.ValueError(location(open), duplicateKeyText))
			}
			current.seen[current.key] = true
			current.awaitsValue = true
			continue
		}
		current.index++
		current.awaitsValue = false
		switch token {
		case json.Delim('{'):
			open = append(open, container{seen: map[string]bool{}})
		case json.Delim('['):
			open = append(open, container{list: true})
		}
	}
}

// container is an object or array that is still open, or the whole body.
type container struct {
	// seen holds the keys of an object so far; nil for an array and for the whole body.
	seen map[string]bool
	// key is the last key of an object. awaitsValue is true between a key and its value.
	key         string
	awaitsValue bool
	list        bool
	// index is the number of values so far.
	index int
}

func (s *container) expectsKey() bool { return s.seen != nil && !s.awaitsValue }

// location returns the location of the last key or element in the innermost container.
func location(open []container) []any {
	at := []any{"body"}
	for _, c := range open {
		switch {
		case c.seen != nil:
			at = append(at, c.key)
		case c.list:
			at = append(at, max(c.index-1, 0))
		}
	}
	return at
}

package function

import (
	"bytes"
	"encoding/json"
)

const twice = "the key stands twice in one object; send it once"

// duplicates finds the keys that stand twice in an object of a body. Parsers differ in which of the two counts, so one
// that checked the body on its way here may have seen another value: such a body is refused. The body must be valid
// JSON.
func duplicates(body []byte) []Violation {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var found []Violation
	open := []scope{{loc: []any{"body"}}}
	for {
		token, err := d.Token()
		if err != nil {
			return found // the end
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
					Loc: current.at(), Type: "value_error", Msg: "Value error, " + twice,
					Ctx: map[string]any{"error": twice},
				})
			}
			current.seen[current.key] = true
			current.inside = true
			continue
		}
		at := current.at()
		current.index++
		current.inside = false
		switch token {
		case json.Delim('{'):
			open = append(open, scope{loc: at, seen: map[string]bool{}})
		case json.Delim('['):
			open = append(open, scope{loc: at, list: true})
		}
	}
}

// scope is an object or a list that has not ended, or the whole body.
type scope struct {
	loc []any
	// seen are the keys of an object; nil for what is none.
	seen map[string]bool
	// key is the last key of an object, and inside is true between a key and its value.
	key    string
	inside bool
	list   bool
	index  int
}

func (s *scope) expectsKey() bool { return s.seen != nil && !s.inside }

// at is the location of the next value.
func (s *scope) at() []any {
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

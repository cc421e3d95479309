package function

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"agents.example/controlplane/shared/fault"
)

const (
	duplicateKeyText = "the key appears twice in one object; send it once"
	halfText         = "the text must not have halves of characters"
)

// ambiguities returns a violation for each place of a body at which parsers differ. The body must be valid JSON.
//   - A repeated key in an object: a proxy that checked the body may have seen the other one of the two values.
//   - Half of a character, an escaped surrogate without the other one: Go's parser replaces it, and what would be
//     stored is not what the client sent.
func ambiguities(body []byte) []Violation {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var found violationList
	open := []container{{}}
	for {
		began := d.InputOffset()
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
		text, _ := token.(string)
		isKey := current.expectsKey()
		repeated := isKey && current.seen[text]
		if isKey {
			current.key, current.seen[text] = text, true
		} else {
			current.index++
		}
		current.awaitsValue = isKey
		half := strings.ContainsRune(text, utf8.RuneError) && HasHalf(body[began:d.InputOffset()])
		if (repeated || half) && !found.full() {
			why := duplicateKeyText
			if half {
				why = halfText
			}
			found.add(fault.ValueError(location(open), why))
		}
		switch token {
		case json.Delim('{'):
			open = append(open, container{seen: map[string]bool{}})
		case json.Delim('['):
			open = append(open, container{list: true})
		}
	}
}

// HasHalf reports whether valid JSON has an escaped surrogate without the other one of its pair.
func HasHalf(text []byte) bool {
	var first rune
	for len(text) > 0 {
		size, c := 1, rune(0)
		switch {
		case text[0] == '\\' && text[1] == 'u':
			n, _ := strconv.ParseUint(string(text[2:6]), 16, 16)
			size, c = 6, rune(n)
		case text[0] == '\\':
			size = 2
		}
		text = text[size:]
		switch {
		case first == 0 && utf16.IsSurrogate(c):
			first = c
		case first != 0 && utf16.DecodeRune(first, c) == utf8.RuneError:
			return true
		default:
			first = 0
		}
	}
	return first != 0
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

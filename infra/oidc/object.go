package oidc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// object is a JSON object whose every name is there once, by its exact spelling.
type object map[string]json.RawMessage

// parseObject reads an object strictly. encoding/json lets the last of several equal names win, and takes names that
// differ in case for equal; other parsers do neither. What is read differently by different parties is how checks are
// passed, so such an object is refused.
func parseObject(data []byte) (object, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	o, folded := object{}, map[string]bool{}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return nil, errors.New("it is not a JSON object")
		}
		// Upper case first: it is what makes the Kelvin sign a K, and the long s an S.
		fold := strings.ToLower(strings.ToUpper(name))
		if folded[fold] {
			return nil, errors.New("a name is there twice")
		}
		folded[fold] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, errors.New("it is not a JSON object")
		}
		o[name] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, errors.New("it is not a JSON object")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	return o, nil
}

// has reports whether a value is there and is not null.
func (o object) has(name string) bool {
	value, ok := o[name]
	return ok && string(value) != "null"
}

// text reads a string; a missing one or null is "". The error tells of any other type.
func (o object) text(name string) (string, error) {
	if !o.has(name) {
		return "", nil
	}
	var s string
	if o[name][0] != '"' || json.Unmarshal(o[name], &s) != nil {
		return "", fmt.Errorf("%s: not a string", name)
	}
	return s, nil
}

// child reads an object; a missing one or null is empty.
func (o object) child(name string) (object, error) {
	if !o.has(name) {
		return nil, nil
	}
	c, err := parseObject(o[name])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// time reads a NumericDate: a JSON number of seconds, whose fraction is dropped. Only moments from 1970 to the year
// 9999 are taken.
func (o object) time(name string) (t time.Time, present bool, err error) {
	value, present := o[name]
	if !present {
		return time.Time{}, false, nil
	}
	// ParseFloat alone would also take "Inf" and hexadecimal, but those are no JSON. A string begins with a quote and
	// fails.
	seconds, err := strconv.ParseFloat(string(value), 64)
	if err != nil || seconds < 0 || seconds > maxSeconds {
		return time.Time{}, true, fmt.Errorf("%s: not a time in seconds since 1970", name)
	}
	return time.Unix(int64(math.Floor(seconds)), 0), true, nil
}

// maxSeconds is the last second of the year 9999.
const maxSeconds = 253402300799

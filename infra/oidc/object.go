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

// object is a JSON object whose names are unique, regardless of case.
type object map[string]json.RawMessage

// parseObject reads an object strictly. With encoding/json, the last of several equal names wins, and names that differ
// only in case are equal; other parsers do neither. An attacker could use such a difference to pass a check, so
// parseObject refuses repeated names.
func parseObject(data []byte) (object, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	o, folded := object{}, map[string]bool{}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return nil, errors.New("not a JSON object")
		}
		// Upper case first: ToUpper turns the long s into an S, which ToLower would leave as it is.
		fold := strings.ToLower(strings.ToUpper(name))
		if folded[fold] {
			return nil, errors.New("a name appears twice")
		}
		folded[fold] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, errors.New("not a JSON object")
		}
		o[name] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, errors.New("not a JSON object")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("unexpected data after the JSON object")
	}
	return o, nil
}

// has reports whether the object has a value other than null under the name.
func (o object) has(name string) bool {
	value, ok := o[name]
	return ok && string(value) != "null"
}

// text reads a string. A missing value or null reads as ""; any other type is an error.
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

// child reads an object. A missing value or null reads as an empty object.
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

// time reads a NumericDate: a JSON number of seconds between 1970 and the year 9999. It drops the fraction.
func (o object) time(name string) (t time.Time, present bool, err error) {
	value, present := o[name]
	if !present {
		return time.Time{}, false, nil
	}
	// ParseFloat would also accept "Inf" and hexadecimal numbers, but neither is JSON. A string begins with a quote and
	// fails.
	seconds, err := strconv.ParseFloat(string(value), 64)
	if err != nil || seconds < 0 || seconds > maxSeconds {
		return time.Time{}, true, fmt.Errorf("%s: not a time in seconds since 1970", name)
	}
	return time.Unix(int64(math.Floor(seconds)), 0), true, nil
}

// maxSeconds is the last second of the year 9999.
const maxSeconds = 253402300799

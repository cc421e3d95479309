package profile

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
)

// Two versions of the tool may use one file, and an older one writes all of it. So what only a later version stored
// stays with the file, the profile or the session that it belongs to, and goes with it.

// UnmarshalJSON implements json.Unmarshaler.
func (f *File) UnmarshalJSON(b []byte) (err error) {
	type plain File
	f.Rest, err = decode(b, (*plain)(f))
	return err
}

// MarshalJSON implements json.Marshaler.
func (f File) MarshalJSON() ([]byte, error) {
	type plain File
	return encode(plain(f), f.Rest)
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Profile) UnmarshalJSON(b []byte) (err error) {
	type plain Profile
	p.Rest, err = decode(b, (*plain)(p))
	return err
}

// MarshalJSON implements json.Marshaler.
func (p Profile) MarshalJSON() ([]byte, error) {
	type plain Profile
	return encode(plain(p), p.Rest)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Session) UnmarshalJSON(b []byte) (err error) {
	type plain Session
	s.Rest, err = decode(b, (*plain)(s))
	return err
}

// MarshalJSON implements json.Marshaler.
func (s Session) MarshalJSON() ([]byte, error) {
	type plain Session
	return encode(plain(s), s.Rest)
}

// decode reads an object into a struct, and returns the members that the struct lacks as an object; "" for none.
func decode[T any](b []byte, into *T) (rest Secret, err error) {
	if err := json.Unmarshal(b, into); err != nil {
		return "", err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		return "", err
	}
	of := reflect.TypeFor[T]()
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		delete(members, name)
	}
	if len(members) == 0 {
		return "", nil
	}
	text, err := json.Marshal(members)
	return Secret(text), err
}

// encode writes a struct with the members that decode returned.
func encode(value any, rest Secret) ([]byte, error) {
	b, err := json.Marshal(value)
	if err != nil || rest == "" {
		return b, err
	}
	var members, own map[string]json.RawMessage
	if err := json.Unmarshal([]byte(rest), &members); err != nil {
		return nil, fmt.Errorf("what another version stored: %w", err)
	}
	if err := json.Unmarshal(b, &own); err != nil {
		return nil, err
	}
	maps.Copy(members, own)
	return json.Marshal(members)
}

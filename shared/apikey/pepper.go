package apikey

import (
	"encoding/base64"
	"fmt"
	"slices"
)

// Pepper is the secret key of the hash under which API keys are stored. Whoever has a pepper and a copy of the database
// can check guesses of keys, and nothing else: a key has 256 random bits. Formatting a pepper never prints it.
type Pepper []byte

// MinPepperBytes is the length of the shortest pepper.
const MinPepperBytes = 32

// EnvDecode parses a pepper from configuration. Its error never contains the value. An empty value is no pepper.
func (p *Pepper) EnvDecode(value string) error {
	if value == "" {
		return nil
	}
	b, err := base64.StdEncoding.DecodeString(value)
	if err != nil || len(b) < MinPepperBytes {
		return fmt.Errorf("want at least %d bytes in standard base64", MinPepperBytes)
	}
	*p = b
	return nil
}

// String redacts the pepper.
func (Pepper) String() string { return "[redacted]" }

// GoString redacts the pepper.
func (Pepper) GoString() string { return "[redacted]" }

// pepperIDLength is the number of characters of a pepper's id.
const pepperIDLength = 16

// ID names the pepper in records, so that keys can be counted by pepper. It reveals nothing of a random pepper. No key
// has this hash, because keys begin with Scheme.
func (p Pepper) ID() string { return Hash(p, "id of the pepper")[:pepperIDLength] }

// Peppers are the peppers that a process accepts. One replaces another in three deployments, so that at any time all
// running instances accept every key, in whatever order they are replaced or rolled back:
//
//	Present: 1                 every key is stored under 1
//	Present: 1, Next: 2        instances learn 2, and none stores a key under it
//	Present: 2, Previous: 1    new keys are stored under 2, and a key under 1 is moved to 2 when it is used
//	Present: 2                 keys that were not used in between are refused
//
// Without the second step, instances that only know 1 would refuse the keys that others create or move.
type Peppers struct {
	// Present is the pepper under which keys are created.
	Present Pepper
	// Next is the pepper that the next deployment makes the present one; nil if none.
	Next Pepper
	// Previous was the present pepper before; nil if no key needs it any more.
	Previous Pepper
}

// All returns the peppers that are accepted, the present one first. A process that serves workers only has none.
func (p Peppers) All() []Pepper {
	return slices.DeleteFunc([]Pepper{p.Present, p.Next, p.Previous}, func(p Pepper) bool { return len(p) == 0 })
}

// Hashes returns the hash of a key under the present pepper and, during a change, those under the others.
func (p Peppers) Hashes(token string) (present string, others []string) {
	for _, pepper := range []Pepper{p.Next, p.Previous} {
		if len(pepper) > 0 {
			others = append(others, Hash(pepper, token))
		}
	}
	return Hash(p.Present, token), others
}

// Moved returns the record of a key as it is under the present pepper, and whether it must be moved there.
func (p Peppers) Moved(k Key, token string) (Key, bool) {
	if len(p.Previous) == 0 || k.Hash != Hash(p.Previous, token) {
		return k, false
	}
	moved := k.HashedWith(p.Present, token)
	return moved, moved.Hash != k.Hash
}

// HashedWith returns the record of a key with its hash under a pepper.
func (k Key) HashedWith(p Pepper, token string) Key {
	k.Hash, k.Pepper = Hash(p, token), p.ID()
	return k
}

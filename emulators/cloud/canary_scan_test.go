package cloud_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// encodings returns the forms in which a value may appear where it leaked.
func encodings(value string) map[string]string {
	all := map[string]string{
		"raw": value, "hex": hex.EncodeToString([]byte(value)),
		"HEX":   strings.ToUpper(hex.EncodeToString([]byte(value))),
		"query": url.QueryEscape(value), "path": url.PathEscape(value),
		"json": strings.Trim(fmt.Sprintf("%q", value), `"`),
	}
	// Base64 encodes three bytes as four characters, so text before the value shifts its encoding, and adjacent text
	// changes its first and last characters.
	for shift := range 3 {
		for name, encoding := range map[string]*base64.Encoding{
			"base64":    base64.RawStdEncoding,
			"base64url": base64.RawURLEncoding,
		} {
			encoded := encoding.EncodeToString(append(make([]byte, shift), value...))
			all[fmt.Sprint(name, " ", shift)] = encoded[4*((shift+2)/3) : len(encoded)-4]
		}
	}
	return all
}

// canaries are secret values that must not leak, by the path on which they were sent.
type canaries struct {
	mu     sync.Mutex
	values map[string]string
}

func (c *canaries) add(path, value string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.values == nil {
		c.values = map[string]string{}
	}
	c.values[path] = value
	return value
}

// find returns the canaries in a text, and their forms.
func (c *canaries) find(text []byte) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []string
	for path, value := range c.values {
		for form, encoded := range encodings(value) {
			if bytes.Contains(text, []byte(encoded)) {
				found = append(found, fmt.Sprintf("the value of %q, %s", path, form))
			}
		}
	}
	return found
}

func TestCanaries_FindsEveryEncodingAtEveryOffset(t *testing.T) {
	t.Parallel()
	const value = "cnry+/=%0123456789abcdef"
	c := &canaries{}
	c.add("a path", value)
	for name, encode := range map[string]func([]byte) string{
		"raw":       func(b []byte) string { return string(b) },
		"hex":       hex.EncodeToString,
		"HEX":       func(b []byte) string { return strings.ToUpper(hex.EncodeToString(b)) },
		"query":     func(b []byte) string { return url.QueryEscape(string(b)) },
		"path":      func(b []byte) string { return url.PathEscape(string(b)) },
		"json":      func(b []byte) string { return fmt.Sprintf("%q", b) },
		"base64":    base64.StdEncoding.EncodeToString,
		"base64url": base64.URLEncoding.EncodeToString,
	} {
		for before := range 7 {
			for behind := range 4 {
				text := encode([]byte(strings.Repeat("b", before) + value + strings.Repeat("e", behind)))
				if len(c.find([]byte("text "+text+" text"))) == 0 {
					t.Errorf("%s with %d bytes before and %d after it: not found in %s", name, before, behind, text)
				}
			}
		}
	}
	if found := c.find([]byte("cnry 0123456789abcdef " +
		base64.StdEncoding.EncodeToString([]byte("nothing of it")))); len(found) > 0 {
		t.Errorf("found %v in a text without the value", found)
	}
}

package value

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
)

// Path is the path of a field: the names from the document down.
type Path []string

// NamePath stands for the document name in queries.
const NamePath = "__name__"

//nolint:gochecknoglobals // an immutable, compiled constant
var (
	simpleName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	reservedName = regexp.MustCompile(`^__.*__$`)
	quoted       = strings.NewReplacer("\\", "\\\\", "`", "\\`")
)

var errPath = errors.New("want names separated by dots, each plain or in `backticks`")

// ParsePath parses a path in the syntax of requests: a.b, or `a.b`.c with unusual names in backticks.
func ParsePath(text string) (Path, error) {
	var p Path
	for rest := text; ; {
		name, after, err := nextName(rest)
		if err != nil {
			return nil, fmt.Errorf("invalid property path %q: %w", text, err)
		}
		p = append(p, name)
		if after == "" {
			return p, nil
		}
		if after[0] != '.' {
			return nil, fmt.Errorf("invalid property path %q: %w", text, errPath)
		}
		rest = after[1:]
	}
}

func nextName(text string) (name, rest string, err error) {
	if !strings.HasPrefix(text, "`") {
		end := strings.IndexByte(text, '.')
		if end < 0 {
			end = len(text)
		}
		if !simpleName.MatchString(text[:end]) {
			return "", "", errPath
		}
		return text[:end], text[end:], nil
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '`' && b.Len() > 0:
			return b.String(), text[i+1:], nil
		case text[i] == '`':
			return "", "", errPath
		case text[i] == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		default:
			b.WriteByte(text[i])
		}
	}
	return "", "", errPath
}

// String returns the path in the syntax that ParsePath reads.
func (p Path) String() string {
	names := make([]string, len(p))
	for i, name := range p {
		if names[i] = name; !simpleName.MatchString(name) {
			names[i] = "`" + quoted.Replace(name) + "`"
		}
	}
	return strings.Join(names, ".")
}

// Within reports whether the path equals other or is below it.
func (p Path) Within(other Path) bool {
	return len(p) >= len(other) && slices.Equal(p[:len(other)], other)
}

// Get returns the value at a path, or nil.
func Get(fields map[string]*firestorepb.Value, p Path) *firestorepb.Value {
	v := fields[p[0]]
	for _, name := range p[1:] {
		v = v.GetMapValue().GetFields()[name]
	}
	return v
}

// With returns the fields with the value at a path replaced; nil removes it. A value on the way that is not a map is
// replaced by one, unless there is nothing to remove. The given fields are not modified.
func With(fields map[string]*firestorepb.Value, p Path, v *firestorepb.Value) map[string]*firestorepb.Value {
	changed := maps.Clone(fields)
	if changed == nil {
		changed = map[string]*firestorepb.Value{}
	}
	name := p[0]
	switch {
	case len(p) > 1:
		_, isMap := changed[name].GetValueType().(*firestorepb.Value_MapValue)
		if v == nil && !isMap {
			return changed
		}
		changed[name] = Map(With(changed[name].GetMapValue().GetFields(), p[1:], v))
	case v == nil:
		delete(changed, name)
	default:
		changed[name] = v
	}
	return changed
}

// Map returns a map value.
func Map(fields map[string]*firestorepb.Value) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_MapValue{MapValue: &firestorepb.MapValue{Fields: fields}}}
}

// Only returns the fields at or below the paths.
func Only(fields map[string]*firestorepb.Value, paths []Path) map[string]*firestorepb.Value {
	var kept map[string]*firestorepb.Value
	for _, p := range paths {
		if v := Get(fields, p); v != nil {
			kept = With(kept, p, v)
		}
	}
	return kept
}

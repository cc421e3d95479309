package openapitest

import (
	"strings"
	"sync"
)

// pointer is a JSON pointer into the document.
type pointer []string

// to returns a pointer below p. It does not modify p.
func (p pointer) to(steps ...string) pointer { return append(p[:len(p):len(p)], steps...) }

// escape escapes a step as JSON pointers do, and then as URLs do.
var escape = sync.OnceValue(func() *strings.Replacer {
	return strings.NewReplacer("~", "~0", "/", "~1", "%", "%25", "{", "%7B", "}", "%7D")
})

// String returns the pointer as a URL fragment.
func (p pointer) String() string {
	escaped := make([]string, len(p))
	for i, step := range p {
		escaped[i] = escape().Replace(step)
	}
	return "#/" + strings.Join(escaped, "/")
}

// resolve follows references. The object is nil if it does not exist.
func (d *Document) resolve(at pointer) (pointer, map[string]any) {
	var value any = d.root
	for _, step := range at {
		object, _ := value.(map[string]any)
		value = object[step]
	}
	object, _ := value.(map[string]any)
	if ref, ok := object["$ref"].(string); ok {
		return d.resolve(strings.Split(strings.TrimPrefix(ref, "#/"), "/"))
	}
	return at, object
}

// operation returns the pointer to the operation of a call, or nil.
func (d *Document) operation(x Exchange) pointer {
	template, ok := d.Template(x.Path)
	if !ok {
		return nil
	}
	method := strings.ToLower(x.Method)
	if method == "head" {
		method = "get"
	}
	at := pointer{"paths", template, method}
	if _, operation := d.resolve(at); operation == nil {
		return nil
	}
	return at
}

// Template returns the path template of a path, which may omit /api/v1 as agent paths may. If several match, the one
// with the fewest parameters wins.
func (d *Document) Template(path string) (string, bool) {
	if path == "/agents" || strings.HasPrefix(path, "/agents/") {
		path = "/api/v1" + path
	}
	paths, _ := d.root["paths"].(map[string]any)
	best, fewest := "", -1
	for template := range paths {
		if n, ok := matches(template, path); ok && (fewest < 0 || n < fewest) {
			best, fewest = template, n
		}
	}
	return best, fewest >= 0
}

// matches reports whether a path matches a template, and the number of parameters.
func matches(template, path string) (parameters int, ok bool) {
	want, got := strings.Split(template, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return 0, false
	}
	for i := range want {
		switch {
		case want[i] == got[i]:
		case strings.HasPrefix(want[i], "{") && got[i] != "":
			parameters++
		default:
			return 0, false
		}
	}
	return parameters, true
}

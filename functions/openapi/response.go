package openapi

import (
	"fmt"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/idempotency"
)

// success describes the answer of a route that did what was asked.
type success struct {
	response response
	// tagged is true when the answer names the version it shows, so that a reader need not fetch it again.
	tagged bool
}

// rendering is an output after its Reply: what goes out.
type rendering struct {
	header http.Header
	body   any
}

func render(out any) rendering {
	r := rendering{header: http.Header{}, body: out}
	if reply, ok := out.(function.Reply); ok {
		r.body = reply.Reply(r.header)
	}
	return r
}

// success renders the zero value of a route's output, and its example where it has one. What the first sets is always
// there, what only the second sets is there sometimes; the type of the first's body is the type of all.
func (d *describer) success(r function.Route) (success, error) {
	t := r.Handle.Output
	always := render(reflect.Zero(t).Interface())
	shown := always
	example, hasExample, err := exampleOf(t)
	if err != nil {
		return success{}, err
	}
	if hasExample {
		shown = render(example)
	}
	names := map[string]bool{"X-Request-Id": true}
	if _, ok := always.body.(function.Negotiable); ok {
		names["Vary"] = true
	}
	for name := range always.header {
		names[name] = true
	}
	for name := range shown.header {
		names[name] = names[name] || false
	}
	if r.Access != function.Public {
		names["RateLimit"], names["RateLimit-Policy"] = false, false
	}
	if repeatable(r) {
		names[idempotency.ReplayedHeader] = false
	}
	if r.Deprecated != nil {
		names["Deprecation"], names["Sunset"], names["Link"] = true, true, true
	}
	s := success{response: response{Description: http.StatusText(r.Status)}, tagged: names["ETag"] || names["Etag"]}
	if s.response.Headers, err = d.headers(names); err != nil {
		return success{}, err
	}
	if s.response.Content, err = d.content(always.body); err != nil || !hasExample {
		return s, err
	}
	if media, ok := s.response.Content[jsonMedia]; ok {
		media.Example = shown.body
		s.response.Content[jsonMedia] = media
	}
	return s, nil
}

// headers describes headers by name; the value says whether a header is always there.
func (d *describer) headers(names map[string]bool) (map[string]any, error) {
	described := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		canonical := spelling(name)
		h, ok := headers()[canonical]
		if !ok {
			return nil, fmt.Errorf("nothing describes the header %s: add it in functions/openapi/headers.go", name)
		}
		if names[name] == h.Required {
			described[canonical] = d.refer(headerPrefix, canonical)
			continue
		}
		h.Required = names[name]
		described[canonical] = h
	}
	return described, nil
}

// content describes a body by its type: JSON, raw bytes, or nothing.
func (d *describer) content(body any) (map[string]mediaType, error) {
	switch body := body.(type) {
	case nil:
		return nil, fmt.Errorf("the zero value of the output has no body to tell the type from: return function.None{} where there is none")
	case function.None:
		return nil, nil
	case function.Raw:
		return rawContent(body.ContentType), nil
	default:
		schema, err := d.schemas.of(reflect.TypeOf(body))
		content := map[string]mediaType{jsonMedia: {Schema: schema}}
		if other, ok := body.(function.Negotiable); ok {
			for _, format := range other.Formats() {
				maps.Copy(content, rawContent(format.ContentType))
			}
		}
		return content, err
	}
}

// rawContent describes bytes. No media type means that it depends on what is asked for.
func rawContent(contentType string) map[string]mediaType {
	media, _, err := mime.ParseMediaType(contentType)
	switch {
	case err != nil:
		return map[string]mediaType{"*/*": {}}
	case media == jsonMedia:
		return map[string]mediaType{media: {Schema: &jsonschema.Schema{Type: "object"}}}
	case strings.HasPrefix(media, "text/"):
		return map[string]mediaType{media: {Schema: &jsonschema.Schema{Type: "string"}}}
	default:
		return map[string]mediaType{media: {}}
	}
}

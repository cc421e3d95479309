package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/idempotency"
)

// success describes the successful response of a route.
type success struct {
	response response
	// tagged is true if the response has an ETag, so that clients can revalidate it.
	tagged bool
}

// rendering is an output after its Reply method.
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

// success renders the zero value of a route's output, and its example if it has one. Headers of the first are always
// present, those of only the second sometimes. The body type is that of the first.
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
	names := commonHeaders()
	if r.Access != function.Public {
		names["Cache-Control"] = true
	}
	switch always.body.(type) {
	case function.Negotiable, function.Formats:
		names["Vary"] = true
	}
	for name := range always.header {
		names[name] = true
	}
	for name := range shown.header {
		names[name] = names[name] || false
	}
	if r.Access.Authenticates() {
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
		if raw, ok := shown.body.(function.Raw); ok {
			media.Example = json.RawMessage(raw.Bytes)
		}
		s.response.Content[jsonMedia] = media
	}
	return s, nil
}

// headers describes headers by name; the value reports whether a header is always present.
func (d *describer) headers(names map[string]bool) (map[string]any, error) {
	described := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		canonical := spelling(name)
		h, ok := headers()[canonical]
		if !ok {
			return nil, fmt.Errorf("header %s has no description: add it in functions/openapi/headers.go", name)
		}
		if names[name] == h.Required {
			described[canonical] = d.reference(headerPrefix, canonical)
			continue
		}
		h.Required = names[name]
		described[canonical] = h
	}
	return described, nil
}

// content describes a body by its type: JSON, raw bytes, or none.
func (d *describer) content(body any) (map[string]mediaType, error) {
	switch body := body.(type) {
	case nil:
		return nil, fmt.Errorf("the output type has no body type: return function.None{} if there is no body")
	case function.None, function.Upgrade:
		return nil, nil
	case function.Raw:
		return d.rawContent(body)
	case function.Formats:
		content := map[string]mediaType{}
		for _, format := range body {
			described, err := d.rawContent(format)
			if err != nil {
				return nil, err
			}
			maps.Copy(content, described)
		}
		return content, nil
	default:
		schema, err := d.schemas.of(reflect.TypeOf(body))
		content := map[string]mediaType{jsonMedia: {Schema: schema}}
		if other, ok := body.(function.Negotiable); ok {
			for _, format := range other.Formats() {
				maps.Copy(content, contentOf(format.ContentType))
			}
		}
		return content, err
	}
}

// rawContent describes a body that is sent unchanged, and its items if it has any: a generator reads contentSchema.
func (d *describer) rawContent(body function.Raw) (map[string]mediaType, error) {
	content := contentOf(body.ContentType)
	for _, other := range body.Others {
		maps.Copy(content, contentOf(other))
	}
	if body.Item == nil {
		return content, nil
	}
	item, err := d.schemas.of(reflect.TypeOf(body.Item))
	for media, described := range content {
		described.Schema = &jsonschema.Schema{
			Type: "string", Description: "Lines of JSON, each with an item of contentSchema.",
			ContentMediaType: media, ContentSchema: &jsonschema.Schema{Type: "array", Items: item},
		}
		if media == "text/event-stream" {
			described.Schema.Description = "Events, each with an item of contentSchema as its data."
		}
		content[media] = described
	}
	return content, err
}

// contentOf describes raw bytes. An empty media type means that it varies.
func contentOf(contentType string) map[string]mediaType {
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

// addRehearsal describes the answer to a rehearsed call. It shares the status 200 with the answer of many real calls.
func (d *describer) addRehearsal(op *operation, r function.Route, real success) error {
	shared := r.Status == http.StatusOK
	r.Status, r.Handle.Output = http.StatusOK, r.Rehearsal.Output
	rehearsed, err := d.success(r)
	if err != nil {
		return err
	}
	rehearsed.response.Description = "The answer to a rehearsal"
	delete(rehearsed.response.Headers, idempotency.ReplayedHeader)
	if !shared {
		op.Responses[strconv.Itoa(http.StatusOK)] = rehearsed.response
		return nil
	}
	media := real.response.Content[jsonMedia]
	media.Schema = &jsonschema.Schema{
		AnyOf: []*jsonschema.Schema{media.Schema, rehearsed.response.Content[jsonMedia].Schema},
	}
	real.response.Content[jsonMedia] = media
	for name, h := range rehearsed.response.Headers {
		if real.response.Headers[name] == nil {
			real.response.Headers[name] = h
		}
	}
	return nil
}
